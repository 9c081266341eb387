package graph

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// What whoever looks after instances does with them, with the objects that they consist of,
// and with those that they only read. Children are found by their labels in all namespaces.
var (
	ofInstances  = []string{"get", "list", "patch"}
	ofChildren   = []string{"create", "delete", "get", "list", "patch", "watch"}
	ofReferences = []string{"list", "watch"}
	// toSee is what the controllers do themselves, whoever looks after the instances.
	toSee = []string{"list", "watch"}
)

// Rights are what the instances of a definition are looked after with.
type Rights struct {
	// Instances are the rights of whoever looks after the instances: the definition's
	// account, or else the controllers.
	Instances []rbac.Need
	// Controllers are the rights of the controllers themselves, in either case.
	Controllers []rbac.Need
	// Unknown are the kinds of which nothing is said here: they have no name yet by which
	// they are served.
	Unknown []schema.GroupVersionKind
}

// Needs are the rights that the instances of a definition are looked after with, given the
// names by which kinds are served. The definition needn't compile: of nodes that are wrong
// nothing is needed.
func Needs(spec *v1alpha1.DefinitionSpec, served func(schema.GroupVersionKind) (resource string, ok bool)) (r Rights) {
	if spec.Schema == nil {
		return r
	}
	may := func(verbs []string, gvk schema.GroupVersionKind, sub, name string) (needs []rbac.Need) {
		resource, ok := served(gvk)
		if !ok {
			if !slices.Contains(r.Unknown, gvk) {
				r.Unknown = append(r.Unknown, gvk)
			}
			return nil
		}
		for _, verb := range verbs {
			needs = append(needs, rbac.Need{Verb: verb, Group: gvk.Group, Resource: resource + sub, Name: name})
		}
		return needs
	}
	own := spec.Schema.InstanceKind()
	r.Controllers = may(toSee, own, "", "")
	r.Instances = slices.Concat(may(ofInstances, own, "", ""), may([]string{"update"}, own, "/status", ""),
		may([]string{"update"}, own, "/finalizers", "")) // to be named as an owner that is waited for
	for _, d := range drafts(spec, nil) {
		switch {
		case d.broken, d.Variable:
		case !d.External:
			r.Instances = append(r.Instances, may(ofChildren, d.Kind, "", "")...)
			r.Instances = append(r.Instances, d.namespace()...)
		default:
			r.Instances = append(r.Instances, may(ofReferences, d.Kind, "", d.onlyName())...)
		}
	}
	return r
}

// namespace is what is needed to wait for the namespace that a template names.
func (d *draft) namespace() []rbac.Need {
	metadata, _ := d.document["metadata"].(map[string]any)
	name, _ := metadata["namespace"].(string)
	if name == "" {
		return nil // it is the instance's, which is there
	}
	if strings.Contains(name, "${") {
		name = ""
	}
	needs := rbac.Of("", "namespaces", ofReferences...)
	for i := range needs {
		needs[i].Name = name
	}
	return needs
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
