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

// Cluster reads and follows trees on an API server.
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

// Target is the root of a tree. Without a name, it stands for all objects of the kind in the
// namespace or, without a namespace, in all namespaces.
type Target struct {
	Mapping         *meta.RESTMapping
	Namespace, Name string
	// Alternatives are what else the kind may stand for as the user wrote it, each with its group.
	Alternatives []string
	// InstancesIn is the namespace of the instances to include if the target is a
	// cluster-scoped definition; empty for all namespaces.
	InstancesIn string
	// UID, if given, is the UID of the target: if an object of the same name has another
	// one, the target is gone.
	UID types.UID
}

// ResourceClient returns the client for the target's resource and namespace.
func (c *Cluster) ResourceClient(t Target) dynamic.ResourceInterface {
	return c.Client.Resource(t.Mapping.Resource).Namespace(t.Namespace)
}

// String names the target in messages: "Vpc prod/main", "all of kind Vpc in namespace prod".
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

func (t Target) matches(o *unstructured.Unstructured) bool {
	return t.UID == "" || t.UID == o.GetUID()
}

// newState returns a state with only the roots.
func (t Target) newState(roots []*unstructured.Unstructured) observe.ClusterState {
	slices.SortFunc(roots, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	state := observe.ClusterState{
		Roots: roots, AllOfKind: t.Name == "",
		Children: map[string][]*unstructured.Unstructured{}, Instances: map[types.UID][]*unstructured.Unstructured{},
	}
	if !state.AllOfKind && len(roots) > 0 {
		state.Root = roots[0]
	}
	return state
}
