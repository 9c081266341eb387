// Package follow looks at the tree of an instance: once, or for as long as the
// instance is there. It finds out what is meant by the names that people use, and
// looks exactly where instances say that they have children.
package follow

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
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

// Target is the object that a tree is of.
type Target struct {
	Mapping         *meta.RESTMapping
	Namespace, Name string
	// UID, if given, is of the incarnation that is meant: another one of the same
	// name is somebody else, and this one is gone.
	UID types.UID
}

// Of returns the client of the target's kind, where the target is.
func (c *Cluster) Of(t Target) dynamic.ResourceInterface {
	return c.Client.Resource(t.Mapping.Resource).Namespace(t.Namespace)
}

// String is the target as messages name it: "Vpc prod/main".
func (t Target) String() string {
	kind := t.Mapping.GroupVersionKind.Kind
	if t.Namespace == "" {
		return kind + " " + t.Name
	}
	return kind + " " + t.Namespace + "/" + t.Name
}

func (t Target) is(o *unstructured.Unstructured) bool {
	return t.UID == "" || t.UID == o.GetUID()
}
