package graph

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/rights"
)

// What whoever looks after instances does with them, with the objects that they consist of,
// and with those that they only read. Children are found by their labels in all namespaces.
var (
	ofInstances  = []string{"get", "list", "patch"}
	ofChildren   = []string{"create", "delete", "get", "list", "patch", "watch"}
	ofReferences = []string{"list", "watch"}
)

// Needs are the rights that the instances of a definition are looked after with, given the
// names by which kinds are served; unknown are the kinds that have none yet. The definition
// needn't compile: of nodes that are wrong nothing is needed.
func Needs(spec *v1alpha1.DefinitionSpec, served func(schema.GroupVersionKind) (resource string, ok bool)) (needs []rights.Need, unknown []schema.GroupVersionKind) {
	if spec.Schema == nil {
		return nil, nil
	}
	may := func(verbs []string, gvk schema.GroupVersionKind, sub, name string) {
		resource, ok := served(gvk)
		if !ok {
			if !slices.Contains(unknown, gvk) {
				unknown = append(unknown, gvk)
			}
			return
		}
		for _, verb := range verbs {
			needs = append(needs, rights.Need{Verb: verb, Group: gvk.Group, Resource: resource + sub, Name: name})
		}
	}
	own := spec.Schema.InstanceKind()
	may(ofInstances, own, "", "")
	may([]string{"update"}, own, "/status", "")
	may([]string{"update"}, own, "/finalizers", "") // to be named as an owner that is waited for
	for _, d := range drafts(spec, nil) {
		switch {
		case d.broken, d.Variable:
		case !d.External:
			may(ofChildren, d.Kind, "", "")
		default:
			may(ofReferences, d.Kind, "", d.onlyName())
		}
	}
	return needs, unknown
}

// onlyName is the name of the only object that a reference can mean; empty if it may be
// any.
func (d *draft) onlyName() string {
	name := d.source.ExternalRef.Metadata.Name
	if d.Collection || strings.Contains(name, "${") {
		return ""
	}
	return name
}
