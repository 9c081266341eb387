package dryrun

import (
	"net/http"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// Converter converts objects of a kind between its versions.
type Converter interface {
	Convert(o map[string]any, version string) (map[string]any, error)
}

// converters contains the converters of kinds whose objects have been written. It is safe for concurrent use, and has
// its own lock because watches convert objects under the overlay's.
type converters struct {
	compile func(*apiextensionsv1.CustomResourceDefinition) (Converter, error)

	mu    sync.Mutex
	kinds map[schema.GroupResource]Converter // nil for a kind that is not converted
}

// ConvertWith makes the converters of CustomResourceDefinitions convert objects. Without it, and if a kind's converter
// is nil, an object has the same fields in all versions. It is called before the first request.
func (o *Overlay) ConvertWith(compile func(*apiextensionsv1.CustomResourceDefinition) (Converter, error)) {
	o.converters.compile = compile
}

// The converter is nil if the kind has none.
func (c *converters) set(resource schema.GroupResource, definition *apiextensionsv1.CustomResourceDefinition) {
	if c.compile == nil {
		return
	}
	var compiled Converter
	if definition != nil {
		if found, err := c.compile(definition); err == nil { // or else the controllers report it
			compiled = found
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = map[schema.GroupResource]Converter{}
	}
	c.kinds[resource] = compiled
}

// known reports whether its CustomResourceDefinition was looked up.
func (c *converters) of(resource schema.GroupResource) (converter Converter, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	converter, known = c.kinds[resource]
	return converter, known
}

// learnConverter reads the CustomResourceDefinition of a kind that the server serves, before the first write to one of its objects.
func (c call) learnConverter() {
	resource := c.info.resource.GroupResource()
	if _, known := c.overlay.converters.of(resource); known || c.overlay.converters.compile == nil || !strings.Contains(resource.Group, ".") || c.isDefinition() {
		return
	}
	at := requestInfo{resource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), name: resource.String()}
	a, err := c.read(at.path())
	if err != nil || a.failed() && a.code != http.StatusNotFound {
		return // it is read again with the next write
	}
	var definition *apiextensionsv1.CustomResourceDefinition
	if o := a.object(); o != nil {
		if definition, err = crd.Decode(o); err != nil {
			definition = nil
		}
	}
	c.overlay.converters.set(resource, definition)
}

func (o *Overlay) converted(resource schema.GroupResource, object *unstructured.Unstructured, version schema.GroupVersion) *unstructured.Unstructured {
	if object.GetAPIVersion() == version.String() {
		return object
	}
	if converter, _ := o.converters.of(resource); converter != nil {
		if fields, err := converter.Convert(object.Object, version.Version); err == nil {
			return (&unstructured.Unstructured{Object: fields}).DeepCopy()
		}
	}
	object = object.DeepCopy()
	object.SetAPIVersion(version.String())
	return object
}
