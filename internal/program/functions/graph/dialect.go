package graph

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/functions/autoready"
	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Dialect is a function that composes a graph: function-graph, or function-kro.
type Dialect struct {
	// names are those that compositions reference the function by: the short one, and the one that a package manager
	// derives from its package.
	names  [2]string
	decode func(map[string]any) (*v1alpha1.DefinitionSpec, diag.List)
	// prefix begins the paths of resources and status in the input.
	prefix object.Path
	// ready says why the object of a resource without readyWhen is not ready; empty if it is.
	ready func(*unstructured.Unstructured) string
	// leavesReadiness: functions of later steps determine the readiness of resources without readyWhen.
	leavesReadiness bool
	// itemSeparator is between the name of a collection and the name of an item's object, in the name of the resource;
	// empty for brackets.
	itemSeparator string
}

// Native is function-graph.
var Native = &Dialect{
	names:  [2]string{"function-graph", "espalier-dev-function-graph"},
	decode: decode, prefix: "spec", ready: unreadyReason,
}

// Kro is function-kro. As in kro, an object without readyWhen is ready once it exists, for the resources that read it. Its
// readiness in the composite is left to later steps.
var Kro = &Dialect{
	names:  [2]string{"function-kro", "crossplane-contrib-function-kro"},
	decode: decodeKro,
	ready:  func(*unstructured.Unstructured) string { return "" }, leavesReadiness: true, itemSeparator: "-",
}

// Names returns the names that compositions reference the function by.
func (d *Dialect) Names() []string { return d.names[:] }

// DialectOf returns the dialect of a function; nil if it composes no graph.
func DialectOf(function string) *Dialect {
	for _, d := range []*Dialect{Native, Kro} {
		if function == d.names[0] || function == d.names[1] {
			return d
		}
	}
	return nil
}

// The paths of the resources and the status in a ResourceGraphDefinition.
const (
	resourcesInDefinition = "spec.resources"
	statusInDefinition    = "spec.schema.status"
)

// path changes a path in a definition to one in the input.
func (d *Dialect) path(p object.Path) object.Path {
	if rest, is := strings.CutPrefix(string(p), statusInDefinition); is {
		return d.prefix.Field("status") + object.Path(rest)
	}
	if rest, is := strings.CutPrefix(string(p), resourcesInDefinition); is {
		return d.Resources() + object.Path(rest)
	}
	return p
}

// Resources is the path of the resources in the input.
func (d *Dialect) Resources() object.Path { return d.prefix.Field("resources") }

func (d *Dialect) text(text string) string {
	return strings.ReplaceAll(text, statusInDefinition, string(d.prefix.Field("status")))
}

func (d *Dialect) paths(problems diag.List) {
	for i := range problems {
		problems[i].Path = d.path(problems[i].Path)
	}
}

// resourceName is the name of the composed resource of a node, which has the item in brackets if it is one of a
// collection.
func (d *Dialect) resourceName(node string) string {
	collection, item := collectionOf(node)
	if !item || d.itemSeparator == "" {
		return node
	}
	return collection + d.itemSeparator + node[len(collection)+1:len(node)-1]
}

func (d *Dialect) resourceNames(nodes []string) []string {
	out := make([]string, len(nodes))
	for i, node := range nodes {
		out[i] = d.resourceName(node)
	}
	return out
}

// nodeName is the node of a composed resource with an object of that name: the reverse of resourceName.
func (d *Dialect) nodeName(resource, object string, spec *v1alpha1.DefinitionSpec) string {
	if d.itemSeparator == "" {
		return resource
	}
	for _, r := range spec.Resources {
		if len(r.ForEach) > 0 && resource == r.ID+d.itemSeparator+object {
			return r.ID + "[" + object + "]"
		}
	}
	return resource
}

// templateOf is the id of the resource in the input that a composed resource is made from.
func (d *Dialect) templateOf(resource string, spec *v1alpha1.DefinitionSpec) (id string) {
	if collection, item := collectionOf(resource); item {
		return collection
	}
	for _, r := range spec.Resources {
		if resource == r.ID {
			return r.ID
		}
		if d.itemSeparator != "" && len(r.ForEach) > 0 && len(r.ID) > len(id) && strings.HasPrefix(resource, r.ID+d.itemSeparator) {
			id = r.ID
		}
	}
	return cmp.Or(id, resource)
}

// nodes returns resources by the names of their nodes.
func (d *Dialect) nodes(resources map[string]call.Resource, spec *v1alpha1.DefinitionSpec) map[string]call.Resource {
	out := make(map[string]call.Resource, len(resources))
	for name, r := range resources {
		out[d.nodeName(name, (&unstructured.Unstructured{Object: r.Object}).GetName(), spec)] = r
	}
	return out
}

// unreadyReason is the readiness rule of function-auto-ready.
func unreadyReason(o *unstructured.Unstructured) string {
	if autoready.Ready(o) {
		return ""
	}
	return "its status doesn't say that it is"
}
