// Package inventory records what an instance owns: on the instance as an ApplySet (KEP-3659),
// which names the kinds and namespaces of its children, and on each child as labels, which name
// the instance and the node. With both, an instance can be deleted with its children without its
// definition. Both are signed with a key of the installation: see Owner.Owns.
// See docs/design/0011-which-objects-are-children.md.
//
// Pure: it decides from values alone.
package inventory

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Owner is an instance as the owner of its children.
type Owner struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
	UID       types.UID
	// Definition is the definition that serves the instance's kind.
	Definition object.Definition
	// Version is this program's version, for the dialect's version label.
	Version string
	// CRD is the CustomResourceDefinition of the instance's kind. NoOwnerReferences says that
	// its children don't refer to it as their owner: see addOwnerReferences.
	CRD               CRD
	NoOwnerReferences bool
	// TreeLabels are the labels of the composition dialect that name the root composite and the
	// claim of an object; empty for a graph's children.
	TreeLabels map[string]string
	// Keys sign the children and the inventory of the instance, and verify them.
	Keys Keys
	// Proved are the children that were proved before, by UID: see Owns.
	Proved map[types.UID]ProvedChild
	// unsignedBefore is until when children without signature are accepted, zero for never, and
	// namespaces are the recorded ones: see Recognizing.
	unsignedBefore time.Time
	namespaces     map[string]struct{}
	// id is what ID returns, if it was computed before: each child needs it.
	id string
}

// OwnerOf describes an instance as an owner.
func OwnerOf(instance *unstructured.Unstructured, d object.Definition, version string) Owner {
	o := Owner{
		Kind:              instance.GroupVersionKind(),
		Namespace:         instance.GetNamespace(),
		Name:              instance.GetName(),
		UID:               instance.GetUID(),
		Definition:        d,
		Version:           object.LabelValue(version),
		TreeLabels:        treeLabels(d.Dialect, instance),
		NoOwnerReferences: instance.GetAnnotations()[v1alpha1.OwnerReferencesAnnotation] == string(v1alpha1.OwnerReferencesNone),
	}
	o.id = ApplySetID(o.Key())
	return o
}

// ID is the ID of the ApplySet: it is derived from name, namespace, kind and group, and so is
// the same for another incarnation of the instance.
func (o Owner) ID() string {
	if o.id != "" {
		return o.id
	}
	return ApplySetID(o.Key())
}

// Key is the key of the instance.
func (o Owner) Key() object.Key {
	return object.Key{Group: o.Kind.Group, Kind: o.Kind.Kind, Namespace: o.Namespace, Name: o.Name}
}

// ApplySetID is the ID of the ApplySet of the parent with the given key, in the form that KEP-3659 requires.
func ApplySetID(k object.Key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Name, k.Namespace, k.Kind, k.Group}, ".")))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// Sign sets the annotation with the digest of an object's content, which shows a reconcile without a request that there
// is nothing to apply, and the label with this program's version, if any. Neither is part of the digest: a new version
// is no reason to write.
func Sign(o *unstructured.Unstructured, version string) {
	marks{labels: o.GetLabels(), annotations: o.GetAnnotations()}.set(o, version, "")
}

// Reading and setting an object's labels or annotations copies all of them, so these are copies to change.
type marks struct{ labels, annotations map[string]string }

func marksOf(o *unstructured.Unstructured) marks {
	m := marks{o.GetLabels(), o.GetAnnotations()}
	if m.labels == nil {
		m.labels = map[string]string{}
	}
	if m.annotations == nil {
		m.annotations = map[string]string{}
	}
	return m
}

// It also does what Sign does. The path of the node is no part of the digest either: its label is.
func (m marks) set(o *unstructured.Unstructured, version, path string) {
	delete(m.labels, v1alpha1.VersionLabel)
	delete(m.annotations, v1alpha1.NodePathAnnotation)
	delete(m.annotations, v1alpha1.AppliedAnnotation)
	metadata, isMap := o.Object["metadata"].(map[string]any)
	if !isMap {
		metadata = map[string]any{}
	}
	labels, annotations := setTexts(metadata, "labels", m.labels), setTexts(metadata, "annotations", m.annotations)
	if len(metadata) > 0 { // else the digest is computed without metadata
		o.Object["metadata"] = metadata
	}
	digest := object.Digest(o.Object)
	if version != "" {
		labels[v1alpha1.VersionLabel] = version
		metadata["labels"] = labels
	}
	if path != "" {
		annotations[v1alpha1.NodePathAnnotation] = path
	}
	annotations[v1alpha1.AppliedAnnotation] = digest
	metadata["annotations"] = annotations
	o.Object["metadata"] = metadata
}

// setTexts sets labels or annotations, unless they are nil, and returns them with room for one more.
func setTexts(metadata map[string]any, field string, texts map[string]string) map[string]any {
	out := make(map[string]any, len(texts)+1)
	for key, text := range texts {
		out[key] = text
	}
	delete(metadata, field)
	if texts != nil {
		metadata[field] = out
	}
	return out
}
