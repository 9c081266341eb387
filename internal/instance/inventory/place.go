package inventory

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Place is the place of a child in its instance: what is needed to delete the instance's
// children in order without its definition. It is recorded on the child.
type Place struct {
	// Node is the id of the node that creates the child.
	Node string
	// Item is the child's place in the collection that the node creates; nil if the node creates
	// a single object.
	Item *Item
	// Layer is the node's place in the order of application, from 0.
	Layer int
	// DependsOn are the nodes that the child's node depends on. DeleteAfter are further nodes, beside its dependents:
	// their objects are deleted before the child. Both are sorted.
	DependsOn, DeleteAfter []string
	// OnDelete is the deletion policy of the child; empty for DeletionDelete.
	OnDelete v1alpha1.DeletionPolicy
	// Preserved says that the child is to outlive its instance by the current policies: it has
	// no owner reference then. It isn't recorded.
	Preserved bool
}

// Mark sets the ownership labels and the place of a node's object, its signature, and the digest
// of it all.
func (o Owner) Mark(child *unstructured.Unstructured, at Place) {
	m := marksOf(child)
	for _, key := range []string{v1alpha1.NodeIDLabel, v1alpha1.CollectionIndexLabel, v1alpha1.CollectionSizeLabel} {
		delete(m.labels, key)
	}
	maps.Copy(m.labels, o.TreeLabels)
	m.labels[v1alpha1.ApplySetPartOfLabel] = o.ID()
	at.annotate(m.annotations)
	version, path := "", ""
	switch o.Definition.Dialect {
	case object.GraphDialect:
		version, path = o.Version, at.Node
		o.markLabels(m.labels, at)
		at.annotateOrphaned(m.annotations)
		annotateFull(m.annotations, v1alpha1.InstanceNameAnnotation, o.Name)
		annotateFull(m.annotations, v1alpha1.InstanceGroupAnnotation, o.Kind.Group)
		o.addOwnerReferences(child, at)
	case object.CompositeDialect:
		m.annotations[apiextensions.CompositionResourceNameAnnotation] = at.Node
		o.setController(child, at)
	case object.ClaimDialect:
		m.labels[v1alpha1.NodeIDLabel] = at.Node
		o.setController(child, at)
	}
	o.sign(m.annotations, child, at.Node)
	m.set(child, version, path)
}

func annotateFull(annotations map[string]string, key, text string) {
	if object.HashedLabelValue(text) != text {
		annotations[key] = text
	}
}

func (o Owner) markLabels(labels map[string]string, at Place) {
	labels[v1alpha1.OwnedLabel] = "true"
	labels[v1alpha1.ManagedByLabel] = v1alpha1.ManagedByValue
	labels[v1alpha1.InstanceIDLabel] = string(o.UID)
	labels[v1alpha1.InstanceNameLabel] = object.HashedLabelValue(o.Name)
	labels[v1alpha1.InstanceGroupLabel] = object.HashedLabelValue(o.Kind.Group)
	labels[v1alpha1.InstanceVersionLabel] = o.Kind.Version
	labels[v1alpha1.InstanceKindLabel] = o.Kind.Kind
	if o.Namespace != "" {
		labels[v1alpha1.InstanceNamespaceLabel] = o.Namespace
	}
	labels[v1alpha1.NodeIDLabel] = nodeLabel(at.Node)
	at.Item.mark(labels)
}

// nodeLabel is a node's id as the value of a label, which has no slashes.
func nodeLabel(id string) string {
	if value := object.HashedLabelValue(id); strings.HasPrefix(value, object.HashPrefix) {
		return value
	}
	return strings.ReplaceAll(id, "/", ".")
}

// Annotate records the place in the annotations of a child, except for the node, which a label
// names.
func (p Place) Annotate(child *unstructured.Unstructured) {
	annotations := child.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	p.annotate(annotations)
	child.SetAnnotations(annotations)
}

func (p Place) annotate(annotations map[string]string) {
	annotations[v1alpha1.ApplyOrderAnnotation] = strconv.Itoa(p.Layer + 1)
	put := func(key, value string) {
		delete(annotations, key)
		if value != "" {
			annotations[key] = value
		}
	}
	annotations[v1alpha1.DependsOnAnnotation] = strings.Join(p.DependsOn, ",")
	put(v1alpha1.DeleteAfterAnnotation, strings.Join(p.DeleteAfter, ","))
	put(v1alpha1.OnDeleteAnnotation, string(p.OnDelete))
}

// annotateOrphaned sets the dialect's own annotation of an orphaned child beside ours, for other
// implementations of the dialect.
func (p Place) annotateOrphaned(annotations map[string]string) {
	delete(annotations, v1alpha1.PolicyAnnotation)
	delete(annotations, v1alpha1.FormerPolicyAnnotation)
	if p.OnDelete == v1alpha1.DeletionOrphan {
		annotations[v1alpha1.PolicyAnnotation] = string(v1alpha1.DeletionOrphaned)
	}
}

// PlaceOf reads a child's place. Malformed parts count as missing: such a child is deleted, and
// first.
func PlaceOf(child *unstructured.Unstructured) Place {
	annotations := child.GetAnnotations()
	p := Place{
		Node: Node(child), Item: ItemOf(child), Layer: Layer(child),
		DependsOn:   splitList(annotations[v1alpha1.DependsOnAnnotation]),
		DeleteAfter: splitList(annotations[v1alpha1.DeleteAfterAnnotation]),
	}
	if policy := v1alpha1.DeletionPolicy(annotations[v1alpha1.OnDeleteAnnotation]); policy.Valid() && policy != v1alpha1.DeletionDelete {
		p.OnDelete = policy
	}
	// Another implementation of the dialect writes only these.
	const orphaned = string(v1alpha1.DeletionOrphaned)
	if p.OnDelete == "" && (annotations[v1alpha1.PolicyAnnotation] == orphaned || annotations[v1alpha1.FormerPolicyAnnotation] == orphaned) {
		p.OnDelete = v1alpha1.DeletionOrphan
	}
	return p
}

// IsRetained reports whether a former instance has retained the child by its own policy, and no other instance has
// taken it over yet.
func IsRetained(child *unstructured.Unstructured) bool {
	from := annotation(child, v1alpha1.RetainedFromAnnotation)
	if from == "" {
		return false
	}
	if id := label(child, v1alpha1.InstanceIDLabel); id != "" {
		return from == id
	}
	ref := metav1.GetControllerOfNoCopy(child)
	return ref == nil || from == string(ref.UID)
}

// HasDependsOn reports whether a child lists its dependencies. One that an earlier version of this program created
// doesn't.
func HasDependsOn(child *unstructured.Unstructured) bool {
	_, has := child.GetAnnotations()[v1alpha1.DependsOnAnnotation]
	return has
}

// Node is the id of the node that created a child; empty for other objects. Composed resources
// have a name in the composition instead.
func Node(child *unstructured.Unstructured) string {
	id := label(child, v1alpha1.NodeIDLabel)
	if path := annotation(child, v1alpha1.NodePathAnnotation); id != "" && nodeLabel(path) == id {
		return path
	}
	if id != "" {
		return id
	}
	return annotation(child, apiextensions.CompositionResourceNameAnnotation)
}

// Layer is a child's place in the order of application, from 0; the annotation counts from 1. A child with no
// annotation or a malformed one is in the last layer, so it is deleted first.
func Layer(child *unstructured.Unstructured) int {
	n, err := strconv.Atoi(annotation(child, v1alpha1.ApplyOrderAnnotation))
	if err != nil || n < 0 {
		return lastLayer
	}
	return max(n-1, 0)
}

const lastLayer = 1 << 30

// AppliedDigest is the digest of what was last applied to a child.
func AppliedDigest(child *unstructured.Unstructured) string {
	return annotation(child, v1alpha1.AppliedAnnotation)
}

// Marks lists the labels and annotations that tie a child to its instance: they are removed when it is orphaned. A
// label that other tools use too is listed only if its value is ours.
func Marks(child *unstructured.Unstructured) (labels, annotations []string) {
	for key, value := range child.GetLabels() {
		switch {
		case key == v1alpha1.ManagedByLabel && value != v1alpha1.ManagedByValue:
		case key == v1alpha1.ManagedByLabel, key == v1alpha1.OwnedLabel, key == v1alpha1.VersionLabel, key == v1alpha1.NodeIDLabel,
			key == v1alpha1.CollectionIndexLabel, key == v1alpha1.CollectionSizeLabel, key == v1alpha1.ApplySetPartOfLabel, strings.HasPrefix(key, instanceLabels):
			labels = append(labels, key)
		}
	}
	for _, key := range []string{
		v1alpha1.ApplyOrderAnnotation, v1alpha1.AppliedAnnotation, v1alpha1.DependsOnAnnotation,
		v1alpha1.DeleteAfterAnnotation, v1alpha1.OnDeleteAnnotation, v1alpha1.RetainedFromAnnotation, v1alpha1.InstanceNameAnnotation,
		v1alpha1.InstanceGroupAnnotation, v1alpha1.FormerNameAnnotation, v1alpha1.FormerGroupAnnotation, v1alpha1.NodePathAnnotation,
		v1alpha1.PolicyAnnotation, v1alpha1.FormerPolicyAnnotation, v1alpha1.SignatureAnnotation, v1alpha1.StringDataAnnotation,
	} {
		if _, ok := child.GetAnnotations()[key]; ok {
			annotations = append(annotations, key)
		}
	}
	l, a := composedMarks(child)
	labels, annotations = append(labels, l...), append(annotations, a...)
	if IsInstance(child) { // what its own definition says of it stays true
		labels = slices.DeleteFunc(labels, func(key string) bool { return key == v1alpha1.OwnedLabel || key == v1alpha1.VersionLabel })
	}
	slices.Sort(labels)
	slices.Sort(annotations)
	return labels, annotations
}

// instanceLabels begins the labels that name the instance of a child.
const instanceLabels = v1alpha1.Prefix + "instance-"

// IsInstance reports whether an object has the label that the engine writes to instances, or the inventory that they
// are created with.
func IsInstance(o *unstructured.Unstructured) bool { return SetOf(o) != "" }

// SetOf returns the id of an instance's ApplySet, which its children's labels name; empty for an object that is not an
// instance, or has no ApplySet yet.
func SetOf(o *unstructured.Unstructured) string { return label(o, v1alpha1.ApplySetIDLabel) }

// IsComposite reports whether an object has the finalizer of a composite, by whatever engine.
func IsComposite(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), apiextensions.CompositeFinalizer)
}

// ReportsDeletion reports whether the status of an object reports its blockers: that of an instance does, and of a
// claim's composite, even if another engine has begun its deletion.
func ReportsDeletion(o *unstructured.Unstructured) bool {
	_, _, claimed := ClaimedBy(o)
	return claimed || IsInstance(o)
}

// IsReserved reports whether a label or an annotation belongs to an engine or to kubectl. Expressions that read all
// labels or annotations of an object do not see it, and no child gets it from its instance.
func IsReserved(key string, value any) bool {
	switch {
	case key == lastAppliedAnnotation:
		return true
	case key == v1alpha1.ManagedByLabel:
		return value == v1alpha1.ManagedByValue
	}
	domain, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc(reservedDomains, func(reserved string) bool {
		return domain == reserved || strings.HasSuffix(domain, "."+reserved)
	})
}

// Engines write labels and annotations of these domains and their subdomains.
var reservedDomains = []string{"kro.run", "espalier.dev", "applyset.kubernetes.io", "crossplane.io"}

const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// IsOwnershipField reports whether a field of a child marks its owner.
func IsOwnershipField(field object.Path) bool {
	for _, at := range [...]object.Path{"metadata.labels", "metadata.annotations"} {
		key, below := strings.CutPrefix(string(field), string(at)+`["`)
		for _, prefix := range [...]string{v1alpha1.Prefix, v1alpha1.InternalPrefix, ownPrefix, applySetPrefix, v1alpha1.ManagedByLabel} {
			if below && strings.HasPrefix(key, prefix) {
				return true
			}
		}
	}
	return strings.HasPrefix(string(field), "metadata.ownerReferences")
}

const (
	ownPrefix      = "espalier.dev/"
	applySetPrefix = "applyset.kubernetes.io/"
)
