package reader

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/object"
)

// Target is an object that a user names. Without a name, it stands for all objects of the kind in the
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

// TargetOf is the target of a key. The error is an UnknownKindError if the kind is not served.
func (k *Kinds) TargetOf(key object.Key) (Target, error) {
	m, err := k.RESTMapping(key.GroupKind())
	if meta.IsNoMatchError(err) {
		return Target{}, &UnknownKindError{Kind: key.GroupKind().String()}
	}
	if err != nil {
		return Target{}, fmt.Errorf("look up kind %q: %w", key.GroupKind(), err)
	}
	return Target{Mapping: m, Namespace: QueryOf(m, key.Namespace).Namespace, Name: key.Name}, nil
}

// Query selects the object, or all objects that the target stands for.
func (t Target) Query() Query {
	q := QueryOf(t.Mapping, t.Namespace)
	if t.Name != "" {
		q.Fields = "metadata.name=" + t.Name
	}
	return q
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

// Matches reports whether an object of the target's name is the target.
func (t Target) Matches(o *unstructured.Unstructured) bool {
	return t.UID == "" || t.UID == o.GetUID()
}
