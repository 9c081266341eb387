package inventory

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Initial is the metadata that the API server gives to every new instance of a kind, by a
// MutatingAdmissionPolicy: what is the same for all instances. So no instance exists without a
// finalizer, and most need no other write before they have children.
type Initial struct {
	Finalizer   string
	Labels      map[string]string
	Annotations map[string]string
}

// InitialOf returns the initial metadata of a kind. If every instance has children of the same kinds
// in its own namespace, these are its inventory; otherwise, with certain false, each instance records
// its own.
func InitialOf(kind schema.GroupKind, d object.Definition, version string, keys Keys, children []schema.GroupKind, certain bool, defaults Defaults) Initial {
	if !certain || keys.IsZero() || d.Dialect != object.GraphDialect {
		return Initial{Finalizer: d.Finalizer()}
	}
	o := Owner{Kind: kind.WithVersion(""), Definition: d, Version: object.LabelValue(version), Keys: keys}
	m := MetadataOf(o, Of(children), defaults)
	delete(m.Labels, v1alpha1.ApplySetIDLabel)
	m.Annotations[v1alpha1.ApplySetHashAnnotation] = m.InitialHash
	return Initial{Finalizer: m.Finalizer, Labels: m.Labels, Annotations: m.Annotations}
}

// Text is the value of v1alpha1.InitialMetadataAnnotation, which the policy parses: a line for the
// finalizer and for each label and annotation, sorted.
func (m Initial) Text() string {
	lines := []string{"finalizer=" + m.Finalizer}
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		lines = append(lines, "label:"+key+"="+m.Labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(m.Annotations)) {
		lines = append(lines, "annotation:"+key+"="+m.Annotations[key])
	}
	return strings.Join(lines, "\n")
}

// initialPrefix begins the value of ApplySetHashAnnotation in initial metadata.
const initialPrefix = "hmac-sha256-of-kind:"

func initialMessage(kind schema.GroupKind, kinds string) []byte {
	return message("espalier initial inventory "+signatureVersion, kind.Group, kind.Kind, kinds)
}

// signatureOfInitial is the value of ApplySetHashAnnotation for an inventory that all instances of a
// kind have in common. It has no namespaces.
func (k Keys) signatureOfInitial(kind schema.GroupKind, kinds string) string {
	id, hash := k.sign(initialMessage(kind, kinds))
	return initialPrefix + strings.Join([]string{signatureVersion, id, hash}, ":")
}

func (k Keys) verifiesInitial(signature string, kind schema.GroupKind, kinds, namespaces string) bool {
	text, signed := strings.CutPrefix(signature, initialPrefix)
	parts := strings.Split(text, ":")
	return signed && namespaces == "" && len(parts) == 3 && parts[0] == signatureVersion &&
		k.verifies(initialMessage(kind, kinds), parts[1], parts[2])
}

// HasInitial says whether an instance has the inventory that it was created with, and none of its own.
func (o Owner) HasInitial(instance *unstructured.Unstructured) bool {
	return o.stateOf(instance) == initial
}

// SetOf returns the id of an instance's ApplySet, which its children's labels name; empty for an
// object that is not an instance, or has no ApplySet yet.
func SetOf(o *unstructured.Unstructured) string {
	if id := o.GetLabels()[v1alpha1.ApplySetIDLabel]; id != "" {
		return id
	}
	if IsInstance(o) {
		return ApplySetID(object.KeyOf(o))
	}
	return ""
}
