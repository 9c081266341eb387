package dryrun

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// fieldTypes caches the field schemas of group versions. It is safe for concurrent use.
type fieldTypes struct {
	mu    sync.Mutex
	known map[schema.GroupVersion]managedfields.TypeConverter
}

// fieldManager computes the managed fields of an object, as the API server does.
type fieldManager struct {
	typed, deduced *managedfields.FieldManager
}

// manager returns the fieldManager for an object.
func (t *fieldTypes) manager(c call, o *unstructured.Unstructured, subresource string) (fieldManager, error) {
	of := o.GroupVersionKind()
	converter, err := t.converter(c, of.GroupVersion())
	if err != nil {
		return fieldManager{}, err
	}
	var out fieldManager
	build := func(from managedfields.TypeConverter) (*managedfields.FieldManager, error) {
		return managedfields.NewDefaultCRDFieldManager(from, sameVersionConverter{}, sameVersionConverter{}, sameVersionConverter{}, of, of.GroupVersion(), subresource, nil)
	}
	if out.deduced, err = build(managedfields.NewDeducedTypeConverter()); err != nil {
		return out, err
	}
	if converter != nil {
		out.typed, err = build(converter)
	}
	return out, err
}

// apply returns the result of a server-side apply.
func (f fieldManager) apply(live, applied *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	if f.typed != nil {
		if out, err := f.typed.Apply(live.DeepCopy(), applied.DeepCopy(), manager, force); err == nil || !force {
			return asUnstructured(out, err)
		}
	}
	return asUnstructured(f.deduced.Apply(live, applied, manager, force))
}

// update returns an object that was changed, with the changed fields owned by the manager.
func (f fieldManager) update(live, next *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	if f.typed != nil {
		if out, err := f.typed.Update(live.DeepCopy(), next.DeepCopy(), manager); err == nil {
			return asUnstructured(out, nil)
		}
	}
	return asUnstructured(f.deduced.Update(live, next, manager))
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

// converter returns the field schemas of a group version, from the server's OpenAPI
// document; nil if there are none.
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
