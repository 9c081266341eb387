package dryrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// fieldTypes is safe for concurrent use.
type fieldTypes struct {
	mu    sync.Mutex
	known map[schema.GroupVersion]managedfields.TypeConverter
}

type fieldManager struct{ *managedfields.FieldManager }

func (t *fieldTypes) manager(c call, o *unstructured.Unstructured, subresource string) (fieldManager, error) {
	of := o.GroupVersionKind()
	converter, err := t.of(c, of)
	if err != nil {
		return fieldManager{}, err
	}
	made, err := managedfields.NewDefaultCRDFieldManager(converter, sameVersionConverter{}, sameVersionConverter{}, sameVersionConverter{}, of,
		of.GroupVersion(), subresource, nil)
	return fieldManager{made}, err
}

// Without a schema they are deduced from the objects, as the API server does.
func (t *fieldTypes) of(c call, kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	var converter managedfields.TypeConverter
	planned := c.overlay.plannedKind(c.info.resource)
	if planned != nil && planned.builtIn == nil {
		converter = planned.typesOf(kind.Version)
	} else {
		served, err := t.converter(c, kind.GroupVersion())
		if err != nil {
			return nil, err
		}
		converter = served
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(kind)
	if converter != nil {
		if _, err := converter.ObjectToTyped(empty); err == nil {
			return converter, nil
		}
	}
	return managedfields.NewDeducedTypeConverter(), nil
}

// It returns the answer that refuses the apply, if one does.
func (f fieldManager) apply(live, applied *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, *answer) {
	out, err := asUnstructured(f.Apply(live, applied, manager, force))
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &status):
		failed := failureAnswer(status.Status().Code, status.Status().Reason, status.Status().Message, status.Status().Details)
		return nil, &failed
	}
	// The API server has no reason for an object that does not match the fields and types of its kind either.
	failed := failureAnswer(http.StatusInternalServerError, "", err.Error(), nil)
	return nil, &failed
}

// The manager owns the changed fields afterwards.
func (f fieldManager) update(live, next *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	out, err := asUnstructured(f.Update(live, next.DeepCopy(), manager))
	if err != nil { // as the API server does with objects that do not have their kind's schema
		out = next.DeepCopy()
		out.SetManagedFields(live.GetManagedFields())
	}
	return out
}

func asUnstructured(o runtime.Object, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, err
	}
	out, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("dry run: merged to a %T", o)
	}
	return out, nil
}

// The schemas come from the server's OpenAPI document; nil if there are none.
func (t *fieldTypes) converter(c call, gv schema.GroupVersion) (managedfields.TypeConverter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[gv]; ok {
		return known, nil
	}
	path := "/openapi/v3/apis/" + gv.String()
	if gv.Group == "" {
		path = "/openapi/v3/api/" + gv.Version
	}
	a, err := c.read(path)
	if err != nil {
		return nil, err
	}
	var converter managedfields.TypeConverter
	var doc struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if !a.failed() && json.Unmarshal(a.raw, &doc) == nil && len(doc.Components.Schemas) > 0 {
		if made, err := managedfields.NewTypeConverter(doc.Components.Schemas, false); err == nil {
			converter = made
		}
	}
	if t.known == nil {
		t.known = map[schema.GroupVersion]managedfields.TypeConverter{}
	}
	t.known[gv] = converter
	return converter, nil
}

// sameVersionConverter changes only the version that an object names: the overlay merges objects
// that were read in one version.
type sameVersionConverter struct{}

// Convert implements runtime.ObjectConvertor.
func (sameVersionConverter) Convert(in, _, _ any) error {
	return fmt.Errorf("dry run: a %T is not converted", in)
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (sameVersionConverter) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	o, ok := in.(*unstructured.Unstructured)
	if !ok {
		return in, nil
	}
	kind, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{o.GroupVersionKind()})
	if !ok || kind == o.GroupVersionKind() {
		return in, nil
	}
	out := o.DeepCopy()
	out.SetGroupVersionKind(kind)
	return out, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (sameVersionConverter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (sameVersionConverter) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (sameVersionConverter) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out, nil
}
