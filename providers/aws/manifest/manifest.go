// Package manifest makes managed resources for resources of AWS that exist. Input are the resources as they were read;
// output are objects that adopt them. References follows what a resource refers to, so a caller can read that too.
//
// Pure: it decides from values alone.
package manifest

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// externalName is the annotation with the identifier of a resource.
const externalName = "crossplane.io/external-name"

// Resource is a resource as it was read.
type Resource struct {
	Type       *resourcetype.Type
	Identifier string
	Properties map[string]any
}

// Options say how objects are made.
type Options struct {
	// Namespace is the objects' namespace; empty for the namespace that they are applied in.
	Namespace     string
	ClusterScoped bool
	// Name is the name of the first object; by default it comes from the tag Name or the identifier.
	Name string
	// ConfigKind and Config are the provider configuration; both empty for the default.
	ConfigKind, Config string
	// Full allows all actions. Otherwise the resources are only observed.
	Full bool
}

// Result is what For returns.
type Result struct {
	// Objects are the managed resources, after those that they refer to.
	Objects []*unstructured.Unstructured
	// Notes say what objects lack.
	Notes []string
}

// For returns a managed resource for each resource. A property that names one of the other resources becomes a
// reference to its object, except where references would form a cycle.
func For(resources []Resource, o Options) (Result, error) {
	var out Result
	kinds := make([]naming.Kind, len(resources))
	for i, r := range resources {
		var err error
		if kinds[i], err = naming.Of(r.Type.Name, o.ClusterScoped); err != nil {
			return out, err
		}
	}
	names := namesOf(resources, o.Name)
	links, objects := newLinks(resources), make([]*unstructured.Unstructured, len(resources))
	for i, r := range resources {
		forProvider, refused := model.Importable(r.Type, r.Properties)
		about := kinds[i].Kind + " " + names[i] + ": "
		for _, name := range refused {
			out.Notes = append(out.Notes, about+name+" is left out: the schema of the type does not allow what AWS returns for it")
		}
		if o.Full {
			out.Notes = append(out.Notes, remarks(r, forProvider, about)...)
		}
		links.replace(i, forProvider, names)
		objects[i] = object(r, kinds[i], names[i], forProvider, o)
		if owner := model.TagsOf(r.Type).Read(r.Properties)[model.TagOwner]; owner != "" {
			out.Notes = append(out.Notes, about+"it carries the mark of another managed resource, "+owner+
				". Two cannot manage it: delete the other one with deletionPolicy Orphan, and then remove the tags "+model.TagOwner+" and "+model.TagBinding)
		}
	}
	for _, i := range links.order() {
		out.Objects = append(out.Objects, objects[i])
	}
	return out, nil
}

// They say what a managed resource with all policies would change, and what it lacks.
func remarks(r Resource, forProvider map[string]any, about string) (out []string) {
	for _, d := range model.Compare(r.Type, model.Desired(r.Type, forProvider, nil), r.Properties).Differences {
		out = append(out, about+"adopting it changes "+d.Name())
	}
	for _, name := range r.Type.Required {
		path := resourcetype.Path{name}
		isNamed := slices.Equal(r.Type.PrimaryIdentifier[len(r.Type.PrimaryIdentifier)-1], path)
		if forProvider[name] != nil || isNamed || resourcetype.Has(r.Type.ReadOnlyProperties, path) {
			continue
		}
		out = append(out, about+"spec.forProvider."+name+" is required, and AWS does not return it; add it")
	}
	return out
}

func object(r Resource, kind naming.Kind, name string, forProvider map[string]any, o Options) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "annotations": map[string]any{externalName: r.Identifier}}
	if o.Namespace != "" && !o.ClusterScoped {
		metadata["namespace"] = o.Namespace
	}
	policy := "Observe"
	if o.Full {
		policy = "*"
	}
	spec := map[string]any{"managementPolicies": []any{policy}, "forProvider": forProvider}
	if o.Config != "" {
		config := map[string]any{"name": o.Config}
		if o.ConfigKind != "" {
			config["kind"] = o.ConfigKind
		}
		spec["providerConfigRef"] = config
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.Group + "/" + naming.Version, "kind": kind.Kind, "metadata": metadata, "spec": spec,
	}}
}

// HasTags reports whether a resource has all the tags.
func HasTags(r Resource, want map[string]string) bool {
	has := model.TagsOf(r.Type).Read(r.Properties)
	for key, value := range want {
		if got, ok := has[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// String names a resource in messages.
func (r Resource) String() string { return fmt.Sprintf("%s %s", r.Type.Name, r.Identifier) }

func sortedKeys(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }
