// Package convert makes a graph definition of a definition of composites and a composition of the
// patch-and-transform function, with the same result, and says what has no equivalent.
//
// Pure: it decides from values alone.
package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/autoready"
	"github.com/espalier-dev/espalier/internal/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// Result is a graph definition, and what it cannot say of the definition and of the composition.
type Result struct {
	Definition map[string]any
	// IDs are the ids of composed resources in the graph definition, by their names.
	IDs map[string]string
	// Spec and Status are the names of the fields of the composite's spec and status that the definition
	// declares.
	Spec, Status []string
	// OfDefinition and OfComposition are what is lost of each, with the field.
	OfDefinition, OfComposition diag.List
}

// Graph converts a composition of a definition's kind. It fails if one of them is invalid, and if nothing of the
// composition can be converted.
func Graph(d *v1.CompositeResourceDefinition, c *v1.Composition) (Result, error) {
	if problems := xrd.Validate(d); len(problems) > 0 {
		return Result{}, fmt.Errorf("CompositeResourceDefinition %s is invalid: %w", d.Name, problems.Err())
	}
	if problems := xrd.ValidateComposition(c); len(problems) > 0 {
		return Result{}, fmt.Errorf("%s %s is invalid: %w", v1.CompositionKind, c.Name, problems.Err())
	}
	if want := c.Spec.CompositeTypeRef; want.Kind != d.Spec.Names.Kind || !strings.HasPrefix(want.APIVersion, d.Spec.Group+"/") {
		return Result{}, fmt.Errorf("%s %s is of kind %s of %s, and CompositeResourceDefinition %s defines %s of %s", v1.CompositionKind, c.Name, want.Kind, want.APIVersion, d.Name, d.Spec.Names.Kind, d.Spec.Group)
	}
	var out Result
	version, fields := out.kindOf(d)
	input, at, health, err := out.inputOf(c)
	if err != nil {
		return Result{}, err
	}
	reserved := graph.ReservedIDs()
	converted, lost := input.ToGraph(patchandtransform.GraphOptions{
		Spec: fields, HealthByStatus: health, ReservedIDs: func(id string) bool { return slices.Contains(reserved, id) },
	})
	for _, l := range lost {
		l.Path = at + "." + l.Path
		out.OfComposition.Add(l)
	}
	if len(converted.Status) > 0 {
		version["status"] = converted.Status
	}
	out.IDs = map[string]string{}
	for _, r := range converted.Resources {
		out.IDs[r.Name] = r.ID
	}
	spec := map[string]any{"schema": version, "resources": resources(converted.Resources)}
	if health {
		spec["readiness"] = string(v1alpha1.ReadinessHealth)
	}
	out.Definition = map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ResourceGraphDefinition",
		"metadata": map[string]any{"name": d.Name}, "spec": spec,
	}
	return out, nil
}

func resources(all []patchandtransform.GraphResource) []any {
	out := make([]any, len(all))
	for i, r := range all {
		one := map[string]any{"id": r.ID, "template": r.Template}
		if len(r.ReadyWhen) > 0 {
			one["readyWhen"] = list(r.ReadyWhen)
		}
		out[i] = one
	}
	return out
}

// kindOf is the schema of the graph definition without the status, and the schema of the spec.
func (r *Result) kindOf(d *v1.CompositeResourceDefinition) (map[string]any, *extv1.JSONSchemaProps) {
	lost := &r.OfDefinition
	names := d.Spec.Names
	out := map[string]any{"kind": names.Kind, "group": d.Spec.Group, "plural": names.Plural}
	if len(names.ShortNames) > 0 {
		out["shortNames"] = list(names.ShortNames)
	}
	if len(names.Categories) > 0 {
		out["categories"] = list(names.Categories)
	}
	if d.ScopeOrDefault() != v1.NamespacedScope {
		out["scope"] = string(v1alpha1.ClusterScope)
	}
	if m := d.Spec.Metadata; m != nil {
		metadata := map[string]any{}
		if len(m.Labels) > 0 {
			metadata["labels"] = jsonOf(m.Labels)
		}
		if len(m.Annotations) > 0 {
			metadata["annotations"] = jsonOf(m.Annotations)
		}
		out["metadata"] = metadata
	}
	r.unsupported(d)
	var fields *extv1.JSONSchemaProps
	for i, v := range d.Spec.Versions {
		at := object.Path("spec.versions").Index(i)
		if !v.Referenceable {
			if v.Served {
				lost.Addf(at, "version %s: only the referenceable version is converted; add the others to spec.schema.versions", v.Name)
			}
			continue
		}
		out["apiVersion"] = v.Name
		if len(v.AdditionalPrinterColumns) > 0 {
			out["additionalPrinterColumns"] = jsonOf(v.AdditionalPrinterColumns)
		}
		if v.Subresources != nil {
			lost.Addf(at.Field("subresources"), "graph definitions have no scale subresource")
		}
		if v.Deprecated != nil && *v.Deprecated {
			lost.Addf(at.Field("deprecated"), "the only version of a graph definition is not deprecated")
		}
		fields = r.specOf(&v, at, out)
	}
	return out, fields
}

// specOf writes the spec of a version in SimpleSchema.
func (r *Result) specOf(v *v1.DefinitionVersion, at object.Path, out map[string]any) *extv1.JSONSchemaProps {
	whole := &extv1.JSONSchemaProps{}
	at = at.Field("schema").Field("openAPIV3Schema")
	if v.Schema != nil && v.Schema.OpenAPIV3Schema.Raw != nil {
		if err := json.Unmarshal(v.Schema.OpenAPIV3Schema.Raw, whole); err != nil {
			r.OfDefinition.Addf(at, "is not a schema: %v", err)
		}
	}
	r.Status = slices.Sorted(maps.Keys(whole.Properties["status"].Properties))
	fields := whole.Properties["spec"]
	r.Spec = slices.Sorted(maps.Keys(fields.Properties))
	at = at.Field("properties").Field("spec")
	written := schema.Write(&fields, at)
	r.OfDefinition = append(r.OfDefinition, written.Lost...)
	if len(fields.XValidations) > 0 {
		r.OfDefinition.Addf(at, "rules of the whole spec")
	}
	if len(written.Spec) > 0 {
		out["spec"] = written.Spec
	}
	if len(written.Types) > 0 {
		out["types"] = written.Types
	}
	return &fields
}

// unsupported reports what graph definitions have no field for.
func (r *Result) unsupported(d *v1.CompositeResourceDefinition) {
	lost := &r.OfDefinition
	if d.Spec.ClaimNames != nil {
		lost.Addf("spec.claimNames", "graph definitions offer no claims: instances are namespaced themselves")
	}
	if len(d.Spec.ConnectionSecretKeys) > 0 {
		lost.Addf("spec.connectionSecretKeys", "graph definitions have no connection Secret; add a Secret to the resources")
	}
	if d.Spec.Conversion != nil && d.Spec.Conversion.Strategy != extv1.NoneConverter {
		lost.Addf("spec.conversion", "conversion webhooks have no equivalent; spec.schema.versions converts with expressions")
	}
	if k := d.Spec.Names.ListKind; k != "" && k != d.Spec.Names.Kind+"List" {
		lost.Addf("spec.names.listKind", "the list of instances is called %sList", d.Spec.Names.Kind)
	}
}

// inputOf is the input of the composition's function, where it is, and whether resources are ready by their status.
func (r *Result) inputOf(c *v1.Composition) (in *patchandtransform.Input, at object.Path, health bool, err error) {
	lost := &r.OfComposition
	for i, step := range c.Spec.Pipeline {
		place := object.Path("spec.pipeline").Index(i)
		if len(step.Credentials) > 0 || step.Requirements != nil {
			lost.Addf(place, "credentials and requirements of functions have no equivalent")
		}
		switch step.FunctionRef.Name {
		case autoready.Name, autoready.PackageName:
			health = true
			if step.Input != nil {
				lost.Addf(place.Field("input"), "checks of %s have no equivalent; write them as readyWhen", step.FunctionRef.Name)
			}
			continue
		case patchandtransform.Name, patchandtransform.PackageName:
		default:
			lost.Addf(place.Field("functionRef"), "function %s has no equivalent; keep it in a graph definition's function, or in the composition", step.FunctionRef.Name)
			continue
		}
		if in != nil {
			return nil, "", false, fmt.Errorf("%s %s: the steps before %q call %s already; put their resources into one step", v1.CompositionKind, c.Name, step.Step, step.FunctionRef.Name)
		}
		var content map[string]any
		if step.Input != nil {
			if err := json.Unmarshal(step.Input.Raw, &content); err != nil {
				return nil, "", false, fmt.Errorf("%s %s: the input of step %q: %w", v1.CompositionKind, c.Name, step.Step, err)
			}
		}
		at = place.Field("input")
		decoded, problems, _ := patchandtransform.Decode(content)
		if len(problems) > 0 {
			return nil, "", false, fmt.Errorf("%s %s: the input of step %q is invalid: %w", v1.CompositionKind, c.Name, step.Step, problems.Err())
		}
		in = decoded
	}
	if in == nil {
		return nil, "", false, fmt.Errorf("%s %s has no step that calls %s: nothing can be converted", v1.CompositionKind, c.Name, patchandtransform.Name)
	}
	return in, at, health, nil
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}

func jsonOf(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	_ = json.Unmarshal(raw, &out)
	return out
}
