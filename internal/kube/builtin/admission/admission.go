// Package admission admits objects of Kubernetes' own kinds without an API server, as far as their types and schemas say how: unknown
// fields, empty maps and lists, required fields, enums and bounds. Defaults, and the rest of the API server's validation, are code of
// the API server only.
package admission

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	strictjson "sigs.k8s.io/json"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/object"
)

var types = func() *runtime.Scheme {
	out := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(out))
	utilruntime.Must(apiextensionsv1.AddToScheme(out))
	return out
}()

// Admission admits objects of a built-in kind. It is safe for concurrent use.
type Admission struct {
	gvk       schema.GroupVersionKind
	kind      object.KindInfo
	validator validation.SchemaValidator
}

// New returns the Admission of a built-in kind.
func New(gvk schema.GroupVersionKind) (*Admission, error) {
	kind, known := builtin.Lookup(gvk)
	if !known || kind.Schema == nil || !types.Recognizes(gvk) {
		return nil, fmt.Errorf("%s is not a built-in kind with a schema", gvk)
	}
	return &Admission{gvk, kind, validation.NewSchemaValidatorFromOpenAPI(kind.Schema)}, nil
}

// UnknownFields lists the fields of an object that its kind does not have.
func (a *Admission) UnknownFields(o *unstructured.Unstructured) []string {
	_, unknown, err := a.decode(o)
	if err != nil {
		return nil // Admit refuses it
	}
	return unknown
}

// Admit returns an object as it would be stored, except for defaults, and what the API server would refuse: for certain, that is not
// all that it refuses. What other controllers write to a status is not validated.
func (a *Admission) Admit(o, _ *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList) {
	typed, _, err := a.decode(o)
	if err != nil {
		return o, field.ErrorList{field.Invalid(nil, a.gvk.Kind, err.Error())}
	}
	stored, err := a.encode(typed)
	if err != nil {
		return o, field.ErrorList{field.InternalError(nil, err)}
	}
	out := &unstructured.Unstructured{Object: common(o.Object, stored).(map[string]any)}
	var problems field.ErrorList
	if problem := a.kind.NameRule.Check(out.GetName()); problem != "" {
		problems = append(problems, field.Invalid(field.NewPath("metadata", "name"), out.GetName(), problem))
	}
	desired := out.DeepCopy()
	delete(desired.Object, "status")
	return out, append(problems, validation.ValidateCustomResource(nil, desired.Object, a.validator)...)
}

// unknown are the fields that the Go type does not have.
func (a *Admission) decode(o *unstructured.Unstructured) (typed runtime.Object, unknown []string, err error) {
	if typed, err = types.New(a.gvk); err != nil {
		return nil, nil, err
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	problems, err := strictjson.UnmarshalStrict(raw, typed, strictjson.DisallowUnknownFields)
	for _, p := range problems {
		if at, ok := p.(strictjson.FieldError); ok { //nolint:errorlint // the library returns it unwrapped
			unknown = append(unknown, at.FieldPath())
		}
	}
	return typed, unknown, err
}

// message is a type that the API server stores as protobuf, which has no empty maps and lists.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal(raw []byte) error
}

func (a *Admission) encode(typed runtime.Object) (map[string]any, error) {
	if m, ok := typed.(message); ok {
		raw, err := m.Marshal()
		if err != nil {
			return nil, err
		}
		empty, err := types.New(a.gvk)
		if err != nil {
			return nil, err
		}
		if err := empty.(message).Unmarshal(raw); err != nil { //nolint:forcetypeassert // it is of the same type
			return nil, err
		}
		empty.GetObjectKind().SetGroupVersionKind(a.gvk)
		typed = empty
	}
	raw, err := json.Marshal(typed)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, utiljson.Unmarshal(raw, &out)
}

// common is the part that a written and the stored value share, as it is stored. What only the stored one has are zero
// values; the API server replaces most by defaults.
func common(written, stored any) any {
	switch w := written.(type) {
	case map[string]any:
		s, ok := stored.(map[string]any)
		if !ok {
			return stored
		}
		out := make(map[string]any, len(w))
		for key, value := range w {
			if kept, has := s[key]; has && (kept != nil) {
				out[key] = common(value, kept)
			}
		}
		return out
	case []any:
		s, ok := stored.([]any)
		if !ok || len(s) != len(w) {
			return stored
		}
		out := make([]any, len(w))
		for i := range w {
			out[i] = common(w[i], s[i])
		}
		return out
	}
	return stored
}
