// Package inventory holds what an instance owns and how that is written down:
// on the instance as an ApplySet (KEP-3659), which names the kinds and
// namespaces to look in, and on each child as labels, which name the instance
// and the node. With both, an instance can be taken apart without its
// definition.
package inventory

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Owner is an instance as its children know it.
type Owner struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
	UID       types.UID
	// Definition is the definition that serves the instance's kind.
	Definition Definition
	// Version is this program's version, for the dialect's version label.
	Version string
}

// Definition names the definition that serves a kind.
type Definition struct {
	Name      string
	Namespace string // empty for a ResourceGraphDefinition
	UID       types.UID
}

// Finalizer is what the definition's instances carry. It derives from names
// alone, so that a definition that was deleted and recreated finds them again.
func (d Definition) Finalizer() string {
	if d.Namespace == "" {
		return v1alpha1.Finalizer
	}
	return d.Name + "." + d.Namespace + v1alpha1.FinalizerSuffix
}

// OwnerOf describes an instance as an owner.
func OwnerOf(instance *unstructured.Unstructured, d Definition, version string) Owner {
	return Owner{
		Kind:       instance.GroupVersionKind(),
		Namespace:  instance.GetNamespace(),
		Name:       instance.GetName(),
		UID:        instance.GetUID(),
		Definition: d,
		Version:    LabelValue(version),
	}
}

// ID is the ApplySet's identity: it derives from name, namespace, kind and
// group, and so outlives the instance's UID.
func (o Owner) ID() string { return ApplySetID(o.Key()) }

// Key names the instance.
func (o Owner) Key() object.Key {
	return object.Key{Group: o.Kind.Group, Kind: o.Kind.Kind, Namespace: o.Namespace, Name: o.Name}
}

// ApplySetID is the identity of the ApplySet whose parent has the given key, in
// the form that KEP-3659 demands.
func ApplySetID(k object.Key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Name, k.Namespace, k.Kind, k.Group}, ".")))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// Owns says whether the object is one of the instance's children.
func (o Owner) Owns(child *unstructured.Unstructured) bool {
	return child.GetLabels()[v1alpha1.ApplySetPartOfLabel] == o.ID()
}

// Sign puts the digest of an object's content onto it, by which a pass knows
// without a request that nothing is to be applied, and this program's version, if
// any. Neither counts for the digest: a new version is no reason to write.
func Sign(o *unstructured.Unstructured, version string) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(labels, v1alpha1.VersionLabel)
	delete(annotations, v1alpha1.AppliedAnnotation)
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	digest := object.Digest(o.Object)
	if version != "" {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.VersionLabel] = version
		o.SetLabels(labels)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AppliedAnnotation] = digest
	o.SetAnnotations(annotations)
}

// LabelValue makes a text fit for a label's value: at most 63 characters of the
// allowed alphabet, shortened with a digest where it is longer.
func LabelValue(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	value := b.String()
	if len(value) > 63 {
		value = value[:52] + "-" + object.Digest(text)[:10]
	}
	return strings.Trim(value, "-_.")
}

// IsUnowned says whether nobody keeps the object, as far as its metadata tell:
// it is in no ApplySet and has no controller.
func IsUnowned(o *unstructured.Unstructured) bool {
	if o.GetLabels()[v1alpha1.ApplySetPartOfLabel] != "" || o.GetLabels()[v1alpha1.OwnedLabel] != "" {
		return false
	}
	for _, ref := range o.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return false
		}
	}
	return true
}

// Whose names the owner of an object as its metadata tell it.
func Whose(o *unstructured.Unstructured) string {
	labels := o.GetLabels()
	if name := labels[v1alpha1.InstanceNameLabel]; name != "" {
		return object.Key{Kind: labels[v1alpha1.InstanceKindLabel], Namespace: labels[v1alpha1.InstanceNamespaceLabel], Name: name}.String()
	}
	for _, ref := range o.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return ref.Kind + " " + ref.Name
		}
	}
	if by := labels[v1alpha1.ManagedByLabel]; by != "" {
		return by
	}
	if set := labels[v1alpha1.ApplySetPartOfLabel]; set != "" {
		return set
	}
	return "nobody here"
}

// InstanceOf names the instance that a child belongs to, in the version that made
// the child, as its metadata tell.
func InstanceOf(child *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	labels := child.GetLabels()
	key = object.Key{
		Group: labels[v1alpha1.InstanceGroupLabel], Kind: labels[v1alpha1.InstanceKindLabel],
		Namespace: labels[v1alpha1.InstanceNamespaceLabel], Name: labels[v1alpha1.InstanceNameLabel],
	}
	if full := child.GetAnnotations()[v1alpha1.InstanceNameAnnotation]; full != "" && LabelValue(full) == key.Name {
		key.Name = full
	}
	version = labels[v1alpha1.InstanceVersionLabel]
	return key, version, key.Name != "" && version != "" && labels[v1alpha1.ApplySetPartOfLabel] == ApplySetID(key)
}
