package external

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/object"
)

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// publishedAnnotation is the digest of what a connection secret was given, by which
// it is known without a look that nothing has changed.
const publishedAnnotation = "espalier.dev/published"

// publish writes what is needed to connect into the secret that the managed
// resource names. Keys that it doesn't know stay.
func (r *Reconciler) publish(ctx context.Context, v *visit, connection map[string][]byte) error {
	name, _, _ := unstructured.NestedString(v.object.Object, "spec", "writeConnectionSecretToRef", "name")
	if name == "" {
		return nil
	}
	namespace, _, _ := unstructured.NestedString(v.object.Object, "spec", "writeConnectionSecretToRef", "namespace")
	if v.object.GetNamespace() != "" {
		namespace = v.object.GetNamespace()
	}
	digest := publishedDigest(v.object, namespace, name, connection)
	if v.object.GetAnnotations()[publishedAnnotation] == digest {
		return nil
	}
	data := make(map[string]any, len(connection))
	for key, value := range connection {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	secret := &unstructured.Unstructured{Object: map[string]any{"type": "connection.crossplane.io/v1alpha1", "data": data}}
	secret.SetGroupVersionKind(secretKind)
	secret.SetNamespace(namespace)
	secret.SetName(name)
	secret.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(v.object, v.object.GroupVersionKind())})
	if err := r.apply(ctx, v, secret); err != nil {
		return fmt.Errorf("write the connection secret %s/%s: %w", namespace, name, err)
	}
	return r.annotate(ctx, v, publishedAnnotation, digest)
}

// publishedDigest is of one incarnation: what was copied from it, by an import say, has
// published nothing.
func publishedDigest(o *unstructured.Unstructured, namespace, name string, connection map[string][]byte) string {
	return object.Digest([]any{o.GetUID(), namespace, name, connection})
}

// apply writes an object of the managed resource's, unless one of the name is
// somebody else's.
func (r *Reconciler) apply(ctx context.Context, v *visit, o *unstructured.Unstructured) error {
	_, err := r.Cluster.Create(ctx, o, Manager)
	if !cluster.IsTaken(err) {
		return quietly(err)
	}
	live, err := r.Cluster.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	if err != nil {
		return quietly(err)
	}
	if !metav1.IsControlledBy(live, v.object) {
		return errors.New("it exists already and isn't this object's")
	}
	_, err = r.Cluster.Update(ctx, o, live.GetUID(), Manager)
	return quietly(err)
}

// quietly is an error that can't quote what was written, and that isn't taken for one
// about the managed resource.
func quietly(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(cluster.Discreet(err))
}
