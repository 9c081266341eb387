package managed

import (
	"encoding/base64"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

const (
	// publishedAnnotation is the digest of the published connection secret. It shows when
	// the secret has to be written with other content.
	publishedAnnotation = "espalier.dev/published"
	// restoredAnnotation is when a connection secret that another client had changed or
	// deleted was last restored.
	restoredAnnotation = "espalier.dev/published-again-at"
)

// restoreInterval is how often a connection secret is restored at most: another client may
// keep overwriting it.
const restoreInterval = 5 * time.Second

type secretName struct{ namespace, name string }

func (p secretName) String() string { return p.namespace + "/" + p.name }

// secretRef is the connection secret that a managed resource refers to, if it does. A
// namespaced managed resource has its secret in its own namespace.
func secretRef(o *unstructured.Unstructured) (ref secretName, ok bool) {
	ref.name, _, _ = unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "name")
	ref.namespace, _, _ = unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "namespace")
	if o.GetNamespace() != "" {
		ref.namespace = o.GetNamespace()
	}
	return ref, ref.name != ""
}

// publication is the wanted content of a managed resource's connection secret, with the
// secret as it is.
type publication struct {
	object     *unstructured.Unstructured
	name       secretName
	connection map[string][]byte
	// live is the secret in the cache; nil if there is none. It is current only if known.
	live  *unstructured.Unstructured
	known bool
	// The content may follow from the secret read.
	read *unstructured.Unstructured
}

type writeReason int

const (
	noWrite    writeReason = iota
	newContent             // the content is new, or this incarnation has not written the secret
	restore                // another client has changed or deleted the secret
)

// writeReason decides whether and why the secret is written. If the secret has changed again
// shortly after it was restored, another client writes it as well, which is an error.
func (p publication) writeReason(now time.Time) (writeReason, error) {
	switch {
	case p.object.GetAnnotations()[publishedAnnotation] != p.digest():
		return newContent, nil
	case !p.known || p.isStored(p.live):
		return noWrite, nil
	}
	last, err := time.Parse(time.RFC3339, p.object.GetAnnotations()[restoredAnnotation])
	if since := now.Sub(last); err == nil && since >= 0 && since < restoreInterval {
		return noWrite, fmt.Errorf("another client keeps changing or deleting the connection secret %s; it is restored at most every %s. Stop that client",
			p.name, restoreInterval)
	}
	return restore, nil
}

// digest identifies the content for one incarnation. A copy of the object, as by an import,
// has another UID and has published nothing.
func (p publication) digest() string {
	return object.Digest([]any{p.object.GetUID(), p.name.namespace, p.name.name, p.connection})
}

// A stored secret holds the wanted content, and the label that it is watched by.
func (p publication) isStored(o *unstructured.Unstructured) bool {
	if o == nil || o.GetLabels()[v1alpha1.ApplySetPartOfLabel] != ownerID(p.object) {
		return false
	}
	data, _, _ := unstructured.NestedMap(o.Object, "data")
	for key, value := range p.connection {
		if data[key] != base64.StdEncoding.EncodeToString(value) {
			return false
		}
	}
	return true
}

// isUnread reports whether the content cannot follow from the stored secret: the cache had none, or a former version of it.
// Without its label the secret is not in the cache.
func (p publication) isUnread(stored *unstructured.Unstructured) bool {
	if !p.known || stored.GetLabels()[v1alpha1.ApplySetPartOfLabel] != ownerID(p.object) {
		return false
	}
	return p.read == nil || p.read.GetResourceVersion() != stored.GetResourceVersion()
}

func (p publication) secret() *unstructured.Unstructured {
	data := make(map[string]any, len(p.connection))
	for key, value := range p.connection {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"type": "connection.crossplane.io/v1alpha1", "data": data}}
	o.SetGroupVersionKind(secretKind)
	o.SetNamespace(p.name.namespace)
	o.SetName(p.name.name)
	o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: ownerID(p.object)})
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(p.object, p.object.GroupVersionKind())})
	return o
}

// annotations are written to the managed resource once the secret is written.
func (p publication) annotations(reason writeReason, now time.Time) map[string]any {
	out := map[string]any{publishedAnnotation: p.digest()}
	if reason == restore {
		out[restoredAnnotation] = now.UTC().Format(time.RFC3339)
	}
	return out
}
