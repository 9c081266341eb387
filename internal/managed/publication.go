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
	// publishedAnnotation is the digest of what a connection secret was given, by
	// which it is known that something else is to be given to it.
	publishedAnnotation = "espalier.dev/published"
	// restoredAnnotation is when a connection secret was put back last that somebody
	// had changed or deleted.
	restoredAnnotation = "espalier.dev/published-again-at"
)

// restoreEvery is how often a connection secret is put back: somebody else may write it
// as well, as often as we do.
const restoreEvery = 5 * time.Second

// secretName names a secret.
type secretName struct{ namespace, name string }

func (p secretName) String() string { return p.namespace + "/" + p.name }

// secretOf is the connection secret that a managed resource names, if it does. One in a
// namespace has its secret there.
func secretOf(o *unstructured.Unstructured) (at secretName, ok bool) {
	at.name, _, _ = unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "name")
	at.namespace, _, _ = unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "namespace")
	if o.GetNamespace() != "" {
		at.namespace = o.GetNamespace()
	}
	return at, at.name != ""
}

// publication is what a managed resource's connection secret is to hold, and what there
// is of it.
type publication struct {
	object     *unstructured.Unstructured
	at         secretName
	connection map[string][]byte
	// live is the secret; nil if there is none, or, where that isn't known, as far as is
	// known.
	live  *unstructured.Unstructured
	known bool
}

// due is why a connection secret is to be written.
type due int

const (
	notDue due = iota
	anew       // it is to hold something else, or this incarnation has written none
	again      // somebody has changed it, or deleted it
)

// due says whether the secret is to be written. What was put back a moment ago is
// written by somebody else as well: that is reported, and not fought about.
func (p publication) due(now time.Time) (due, error) {
	switch {
	case p.object.GetAnnotations()[publishedAnnotation] != p.digest():
		return anew, nil
	case !p.known || p.isIn(p.live):
		return notDue, nil
	}
	last, err := time.Parse(time.RFC3339, p.object.GetAnnotations()[restoredAnnotation])
	if since := now.Sub(last); err == nil && since >= 0 && since < restoreEvery {
		return notDue, fmt.Errorf("the connection secret %s was changed or deleted again right after it was put back; that is done every %s", p.at, restoreEvery)
	}
	return again, nil
}

// digest is of one incarnation: what was copied from it, by an import say, has published
// nothing.
func (p publication) digest() string {
	return object.Digest([]any{p.object.GetUID(), p.at.namespace, p.at.name, p.connection})
}

// isIn says that a secret holds all of it, and is watched.
func (p publication) isIn(o *unstructured.Unstructured) bool {
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

// secret is the secret that is applied.
func (p publication) secret() *unstructured.Unstructured {
	data := make(map[string]any, len(p.connection))
	for key, value := range p.connection {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"type": "connection.crossplane.io/v1alpha1", "data": data}}
	o.SetGroupVersionKind(secretKind)
	o.SetNamespace(p.at.namespace)
	o.SetName(p.at.name)
	o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: ownerID(p.object)})
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(p.object, p.object.GroupVersionKind())})
	return o
}

// noted is what the managed resource notes of it.
func (p publication) noted(as due, now time.Time) map[string]any {
	out := map[string]any{publishedAnnotation: p.digest()}
	if as == again {
		out[restoredAnnotation] = now.UTC().Format(time.RFC3339)
	}
	return out
}
