package gotemplating

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"dario.cat/mergo"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/diag"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// adding adds the objects of an output to a response.
type adding struct {
	response *fnv1.RunFunctionResponse
	// observed is the observed composite.
	observed map[string]any
	// composite and context are the desired composite and the pipeline's context after the objects so far, or nil.
	composite, context map[string]any
}

func (a *adding) add(object map[string]any) error {
	annotations, err := annotationsOf(object)
	if err != nil {
		return err
	}
	if object["apiVersion"] == metaVersion {
		return a.addMeta(object)
	}
	ready := fnv1.Ready_READY_UNSPECIFIED
	text, isSet := annotations[readyAnnotation].(string)
	switch text {
	case "True":
		ready = fnv1.Ready_READY_TRUE
	case "False":
		ready = fnv1.Ready_READY_FALSE
	case "Unspecified":
	default:
		if isSet {
			return fmt.Errorf("%s: the annotation %s cannot be %q; expected True, False or Unspecified", describe(object), readyAnnotation, diag.Truncate(text, 100))
		}
	}
	name, isNamed := annotations[nameAnnotation].(string)
	if !isNamed && object["apiVersion"] == a.observed["apiVersion"] && object["kind"] == a.observed["kind"] {
		if isSet {
			a.desiredComposite().Ready = ready
		}
		return a.mergeStatus(object)
	}
	if !isNamed {
		return fmt.Errorf("%s has no annotation %s", describe(object), nameAnnotation)
	}
	delete(annotations, nameAnnotation)
	delete(annotations, readyAnnotation)
	if metadata, _ := object["metadata"].(map[string]any); len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	resource, err := structs.ToStruct(object)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(object), err)
	}
	desired := a.desired()
	if desired.Resources == nil {
		desired.Resources = map[string]*fnv1.Resource{}
	}
	desired.Resources[name] = &fnv1.Resource{Resource: resource, Ready: ready}
	return nil
}

// annotationsOf returns the annotations of an object, which must be strings: YAML reads true and 1 as others.
func annotationsOf(object map[string]any) (map[string]any, error) {
	metadata, isObject := object["metadata"].(map[string]any)
	if object["metadata"] != nil && !isObject {
		return nil, fmt.Errorf("%s: metadata is not an object", describe(object))
	}
	annotations, isObject := metadata["annotations"].(map[string]any)
	if metadata["annotations"] != nil && !isObject {
		return nil, fmt.Errorf("%s: metadata.annotations is not an object", describe(object))
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if _, isText := annotations[key].(string); !isText {
			return nil, fmt.Errorf("%s: the annotation %s is not a string; quote its value", describe(object), diag.Truncate(key, 200))
		}
	}
	return annotations, nil
}

// describe names an object of an output in messages.
func describe(object map[string]any) string {
	kind, _ := object["kind"].(string)
	text := diag.Truncate(kind, 100)
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if name, _ := annotations[nameAnnotation].(string); name != "" {
		return text + " of resource " + diag.Truncate(name, 100)
	}
	if name, _ := metadata["name"].(string); name != "" {
		text += " " + diag.Truncate(name, 100)
	}
	return text
}

func (a *adding) desired() *fnv1.State {
	if a.response.Desired == nil {
		a.response.Desired = &fnv1.State{}
	}
	return a.response.Desired
}

func (a *adding) desiredComposite() *fnv1.Resource {
	desired := a.desired()
	if desired.Composite == nil {
		desired.Composite = &fnv1.Resource{}
	}
	return desired.Composite
}

// mergeStatus merges the status of an object into the composite.
func (a *adding) mergeStatus(object map[string]any) error {
	if a.composite == nil {
		a.composite = map[string]any{}
	}
	if _, has := object["status"]; !has {
		return nil
	}
	status, isObject := object["status"].(map[string]any)
	if !isObject {
		return fmt.Errorf("%s: status is not an object", describe(object))
	}
	before, _ := a.composite["status"].(map[string]any)
	if before == nil {
		before = map[string]any{}
	}
	if err := mergo.Merge(&before, status, mergo.WithOverride); err != nil {
		return fmt.Errorf("%s: cannot merge the status: %w", describe(object), err)
	}
	a.composite["apiVersion"], a.composite["kind"], a.composite["status"] = a.observed["apiVersion"], a.observed["kind"], before
	return nil
}

func (a *adding) mergeContext(data map[string]any) error {
	if a.context == nil {
		a.context = map[string]any{}
	}
	return mergo.Merge(&a.context, data, mergo.WithOverride)
}

// addMeta carries out an object for this function.
func (a *adding) addMeta(object map[string]any) error {
	switch kind := object["kind"]; kind {
	case "CompositeConnectionDetails":
		return a.addConnectionDetails(object)
	case "ClaimConditions":
		return a.addConditions(object)
	case "Context":
		data, isObject := object["data"].(map[string]any)
		if !isObject {
			return fmt.Errorf("%s: data is not an object", kind)
		}
		if err := a.mergeContext(data); err != nil {
			return fmt.Errorf("%s: cannot merge data: %w", kind, err)
		}
		return nil
	case "ExtraResources":
		return a.addRequirements(object)
	default:
		return fmt.Errorf("%s of %s is unknown; expected CompositeConnectionDetails, ClaimConditions, Context or ExtraResources", describe(object), metaVersion)
	}
}

// addConnectionDetails skips values that cannot be published, with a Warning: the original function does so silently.
func (a *adding) addConnectionDetails(object map[string]any) error {
	data, _ := object["data"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text, isText := data[key].(string)
		value, err := base64.StdEncoding.DecodeString(text)
		if !isText || err != nil {
			a.response.Results = append(a.response.Results, &fnv1.Result{
				Severity: fnv1.Severity_SEVERITY_WARNING,
				Message:  fmt.Sprintf("CompositeConnectionDetails: data.%s is not published: it is not a string in base64 (function b64enc)", diag.Truncate(key, 200)),
			})
			continue
		}
		composite := a.desiredComposite()
		if composite.ConnectionDetails == nil {
			composite.ConnectionDetails = map[string][]byte{}
		}
		composite.ConnectionDetails[key] = value
	}
	return nil
}

// systemConditions are conditions of the engine.
var systemConditions = []string{"Ready", "Synced", "Healthy"}

func (a *adding) addConditions(object map[string]any) error {
	conditions, isList := object["conditions"].([]any)
	if object["conditions"] != nil && !isList {
		return fmt.Errorf("ClaimConditions: conditions is not a list")
	}
	for i, item := range conditions {
		text := map[string]string{}
		fields, _ := item.(map[string]any)
		for _, field := range []string{"type", "status", "reason", "message", "target"} {
			value, isText := fields[field].(string)
			if fields[field] != nil && !isText {
				return fmt.Errorf("ClaimConditions: conditions[%d].%s is not a string; quote it", i, field)
			}
			text[field] = value
		}
		if slices.Contains(systemConditions, text["type"]) {
			return fmt.Errorf("ClaimConditions: conditions[%d].type: %s is a condition of the engine", i, text["type"])
		}
		condition := &fnv1.Condition{Type: text["type"], Reason: text["reason"], Status: fnv1.Status_STATUS_CONDITION_UNKNOWN, Target: fnv1.Target_TARGET_COMPOSITE.Enum()}
		switch text["status"] {
		case "True":
			condition.Status = fnv1.Status_STATUS_CONDITION_TRUE
		case "False":
			condition.Status = fnv1.Status_STATUS_CONDITION_FALSE
		}
		if text["message"] != "" {
			condition.Message = new(text["message"])
		}
		if text["target"] == "CompositeAndClaim" {
			condition.Target = fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum()
		}
		a.response.Conditions = append(a.response.Conditions, condition)
	}
	return nil
}

func (a *adding) addRequirements(object map[string]any) error {
	requirements, isObject := object["requirements"].(map[string]any)
	if !isObject {
		return fmt.Errorf("ExtraResources: requirements is not an object")
	}
	for _, name := range slices.Sorted(maps.Keys(requirements)) {
		if a.response.Requirements == nil {
			a.response.Requirements = &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{}}
		}
		if _, exists := a.response.GetRequirements().GetResources()[name]; exists {
			return fmt.Errorf("ExtraResources: requirement %q occurs twice", diag.Truncate(name, 100))
		}
		selector, err := selectorOf(requirements[name])
		if err != nil {
			return fmt.Errorf("ExtraResources: requirement %q: %w", diag.Truncate(name, 100), err)
		}
		a.response.Requirements.Resources[name] = selector
	}
	return nil
}

func selectorOf(value any) (*fnv1.ResourceSelector, error) {
	fields, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("is not an object")
	}
	text := map[string]string{}
	for _, field := range []string{"apiVersion", "kind", "matchName", "namespace"} {
		value, isText := fields[field].(string)
		if fields[field] != nil && !isText {
			return nil, fmt.Errorf("%s is not a string", field)
		}
		text[field] = value
	}
	out := &fnv1.ResourceSelector{ApiVersion: text["apiVersion"], Kind: text["kind"]}
	if text["namespace"] != "" {
		out.Namespace = new(text["namespace"])
	}
	if text["matchName"] != "" {
		out.Match = &fnv1.ResourceSelector_MatchName{MatchName: text["matchName"]}
		return out, nil
	}
	labels := map[string]string{}
	all, isObject := fields["matchLabels"].(map[string]any)
	if fields["matchLabels"] != nil && !isObject {
		return nil, fmt.Errorf("matchLabels is not an object")
	}
	for key, value := range all {
		label, isText := value.(string)
		if !isText {
			return nil, fmt.Errorf("matchLabels: the label %s is not a string; quote it", diag.Truncate(key, 100))
		}
		labels[key] = label
	}
	out.Match = &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: labels}}
	return out, nil
}
