package managed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// resolveReferences stores the values that fields of spec.forProvider take from other managed resources. The error
// names one that does not exist or has no identity yet; its event brings the next reconcile. References of an object
// that is being deleted are not resolved.
//
// Values of fields in lists are not stored, but given to the provider's client only. In a CustomResourceDefinition, a
// list is one value to server-side apply: storing a value would make this controller the owner of the whole list, and
// the list's applier would write it again.
func (r *Reconciler) resolveReferences(ctx context.Context, s *reconcileState) error {
	if s.object.GetDeletionTimestamp() != nil {
		return nil
	}
	forProvider, _, _ := unstructured.NestedMap(s.object.Object, "spec", "forProvider")
	found := map[string]any{}
	for _, ref := range r.Port.References {
		for _, f := range findFields(ref.Field, forProvider) {
			value, err := s.resolveField(ref, f)
			switch {
			case err != nil:
				return fieldError(f, err)
			case value == nil || equal(f.value(), value):
			case f.inList():
				s.listValues = append(s.listValues, fieldValue{f.path, value})
			default:
				setField(found, f.path, value)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return r.patch(ctx, s, map[string]any{"spec": map[string]any{"forProvider": found}})
}

// waitingError is what a reference waits for. The event that ends it enqueues the managed resource: neither backoff nor a
// log line is needed.
type waitingError struct{ message string }

func (e waitingError) Error() string { return e.message }

func waitingf(format string, args ...any) error { return waitingError{fmt.Sprintf(format, args...)} }

func fieldError(f field, err error) error {
	var denied *external.NotAllowedError
	if errors.As(err, &denied) {
		return &external.NotAllowedError{Message: fmt.Sprintf("spec.forProvider.%s: %s", f, denied.Message)}
	}
	return fmt.Errorf("spec.forProvider.%s: %w", f, err)
}

func equal(a, b any) bool { return object.Digest(a) == object.Digest(b) }

type target struct {
	namespace, name, policy string
	optional                bool
	// found is the object; nil if it does not exist, or must not be referred to.
	found *unstructured.Unstructured
}

func (t target) resolvesAlways() bool { return t.policy == "Always" }

// resolveField returns the value for a field; nil if the field is set, or has no reference.
func (s *reconcileState) resolveField(ref port.Reference, f field) (any, error) {
	named, selector := s.readReference(ref, f)
	always := slices.ContainsFunc(named, target.resolvesAlways) || len(named) == 0 && s.readTarget(selector).resolvesAlways()
	if isSet(f.value()) && !always {
		return nil, nil // nothing is read for it, so the value outlives what it is from
	}
	targets, err := s.findTargets(ref, named, selector)
	if err != nil {
		return nil, err
	}
	extract := ref.Extract
	if extract == nil {
		extract = func(o *unstructured.Unstructured) string { return o.GetAnnotations()[resource.ExternalNameAnnotation] }
	}
	var values []any
	for _, t := range targets {
		value := ""
		if t.found != nil {
			value = extract(t.found)
		}
		switch {
		case value != "":
			values = append(values, value)
		case t.optional:
		case t.found == nil && s.isForeign(t.namespace):
			return nil, s.foreignError(fmt.Sprintf("%s %s/%s does not exist, or allows no references", ref.To.Kind, t.namespace, t.name))
		case t.found == nil:
			return nil, waitingf("%s %s/%s does not exist", ref.To.Kind, t.namespace, t.name)
		default:
			return nil, waitingf("%s %s/%s has no identity yet", ref.To.Kind, t.namespace, t.name)
		}
	}
	switch {
	case len(values) == 0:
		return nil, nil
	case ref.List:
		return values, nil
	}
	return values[0], nil
}

func isSet(value any) bool {
	list, isList := value.([]any)
	return value != nil && value != "" && (!isList || len(list) > 0)
}

// selector selects objects if the field names none.
func (s *reconcileState) readReference(ref port.Reference, f field) (named []target, selector map[string]any) {
	value := f.parent[cmp.Or(ref.Ref, f.name()+"Ref")]
	if ref.List && ref.Ref == "" && value == nil {
		value = f.parent[f.name()+"Refs"]
	}
	list, isList := value.([]any)
	if !isList && value != nil {
		list = []any{value}
	}
	for _, item := range list {
		m, _ := item.(map[string]any)
		if t := s.readTarget(m); t.name != "" {
			named = append(named, t)
		}
	}
	selector, _ = f.parent[cmp.Or(ref.Selector, f.name()+"Selector")].(map[string]any)
	return named, selector
}

// If none is named, the objects are selected. They are watched.
func (s *reconcileState) findTargets(ref port.Reference, named []target, selector map[string]any) ([]target, error) {
	for i, t := range named {
		found, err := s.Get(ref.To, t.namespace, t.name)
		if err != nil {
			return nil, err
		}
		if found != nil && s.mayReferTo(found) {
			named[i].found = found
		}
	}
	if len(named) > 0 || selector == nil {
		return named, nil
	}
	return s.selectTargets(ref, selector)
}

func (s *reconcileState) readTarget(m map[string]any) target {
	t := target{namespace: s.object.GetNamespace()}
	t.name, _ = m["name"].(string)
	if ns, _ := m["namespace"].(string); ns != "" {
		t.namespace = ns
	}
	t.policy, _, _ = unstructured.NestedString(m, "policy", "resolve")
	resolution, _, _ := unstructured.NestedString(m, "policy", "resolution")
	t.optional = resolution == "Optional"
	return t
}

// selectTargets returns the objects that a selector matches, sorted by name; only the first
// for a field that is no list.
func (s *reconcileState) selectTargets(ref port.Reference, selector map[string]any) ([]target, error) {
	template := s.readTarget(selector)
	match, _, _ := unstructured.NestedStringMap(selector, "matchLabels")
	all, state := s.lease.Matching(ref.To, template.namespace, labels.SelectorFromSet(match))
	if err := checkSynced(state); err != nil {
		return nil, fmt.Errorf("objects of kind %s: %w", ref.To.Kind, err)
	}
	if s.isForeign(template.namespace) {
		all = slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool { return !s.mayReferTo(o) })
	}
	matching := len(all)
	if siblings, _, _ := unstructured.NestedBool(selector, "matchControllerRef"); siblings {
		controller := metav1.GetControllerOf(s.object)
		all = slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
			other := metav1.GetControllerOf(o)
			return controller == nil || other == nil || controller.UID != other.UID
		})
	}
	if len(all) == 0 {
		switch {
		case template.optional:
			return nil, nil
		case s.isForeign(template.namespace) && matching == 0:
			return nil, s.foreignError(fmt.Sprintf("no %s in namespace %s that the selector matches allows references", ref.To.Kind, template.namespace))
		}
		return nil, noMatchError(ref.To.Kind, template.namespace, match, matching > 0)
	}
	if !ref.List {
		all = all[:1]
	}
	var out []target
	for _, o := range all {
		t := template
		t.name, t.found = o.GetName(), o
		out = append(out, t)
	}
	return out, nil
}

// No object is selected by its labels or, if further ones with these labels are left out, by its controller.
func noMatchError(kind, namespace string, match map[string]string, ofOtherControllers bool) error {
	if namespace != "" {
		kind += fmt.Sprintf(" in namespace %q", namespace)
	}
	selector := labels.SelectorFromSet(match)
	switch {
	case len(match) == 0 && ofOtherControllers:
		return waitingf("no %s has the same controller as this object", kind)
	case len(match) == 0:
		return waitingf("there is no %s", kind)
	case ofOtherControllers:
		return waitingf("no %s matches the labels %s with the same controller as this object", kind, selector)
	}
	return waitingf("no %s matches the labels %s", kind, selector)
}

// A reference to another namespace would tell whether an object exists there, and what its external resource is called,
// to a user who can create managed resources here. So the other object has to allow it. An object that does not is
// treated as one that does not exist.

// The namespace is another one than the object's. References of cluster-scoped objects are not restricted.
func (s *reconcileState) isForeign(namespace string) bool {
	own := s.object.GetNamespace()
	return own != "" && namespace != own
}

func (s *reconcileState) mayReferTo(o *unstructured.Unstructured) bool {
	if o.GetNamespace() == "" || !s.isForeign(o.GetNamespace()) {
		return true
	}
	for allowed := range strings.SplitSeq(o.GetAnnotations()[resource.AllowReferencesAnnotation], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == "*" || allowed == s.object.GetNamespace() {
			return true
		}
	}
	return false
}

// foreignError says that nothing in another namespace can be referred to, and how that is allowed.
func (s *reconcileState) foreignError(what string) error {
	return &external.NotAllowedError{Message: fmt.Sprintf("%s from namespace %s. Refer to an object of this namespace, "+
		"or ask a user who can write that object to set its annotation %s: %[2]s", what, s.object.GetNamespace(), resource.AllowReferencesAnnotation)}
}
