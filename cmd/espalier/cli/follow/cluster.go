// Package follow looks at trees: of an instance, of a definition with its instances, or of
// all objects of a kind; once, or for as long as they are there. It finds out what is meant
// by the names that people use, and looks exactly where instances say that they have children.
package follow

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
)

// Cluster is an API server with trees to look at.
type Cluster struct {
	Client dynamic.Interface
	Kinds  *Kinds
}

// New returns the cluster of a configuration. It makes no request.
func New(config *rest.Config) (*Cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	kinds, err := newKinds(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: client, Kinds: kinds}, nil
}

// Target is the object that a tree is of. Without a name, all objects of the kind are meant
// that are in the namespace or, without a namespace, in any.
type Target struct {
	Mapping         *meta.RESTMapping
	Namespace, Name string
	// InstancesIn is the namespace whose instances are meant, where the target is a definition
	// that is in no namespace; empty for all.
	InstancesIn string
	// UID, if given, is of the incarnation that is meant: another one of the same
	// name is somebody else, and this one is gone.
	UID types.UID
}

// Of returns the client of the target's kind, where the target is.
func (c *Cluster) Of(t Target) dynamic.ResourceInterface {
	return c.Client.Resource(t.Mapping.Resource).Namespace(t.Namespace)
}

// String is the target as messages name it: "Vpc prod/main", "all of kind Vpc in namespace prod".
func (t Target) String() string {
	kind := t.Mapping.GroupVersionKind.Kind
	switch {
	case t.Name == "" && t.Namespace == "":
		return "all of kind " + kind
	case t.Name == "":
		return "all of kind " + kind + " in namespace " + t.Namespace
	case t.Namespace == "":
		return kind + " " + t.Name
	}
	return kind + " " + t.Namespace + "/" + t.Name
}

func (t Target) is(o *unstructured.Unstructured) bool {
	return t.UID == "" || t.UID == o.GetUID()
}

// rooted is a world with nothing in it but the objects that the target means.
func (t Target) rooted(roots []*unstructured.Unstructured) observe.World {
	slices.SortFunc(roots, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	world := observe.World{
		Roots: roots, Many: t.Name == "",
		Children: map[string][]*unstructured.Unstructured{}, Instances: map[types.UID][]*unstructured.Unstructured{},
	}
	if !world.Many && len(roots) > 0 {
		world.Root = roots[0]
	}
	return world
}
