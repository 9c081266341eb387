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

// Place is where a child stands in its instance: what has to be known to take the
// instance apart without its definition. It is written on the child itself.
type Place struct {
	// Node is the id of the node that makes the child.
	Node string
	// Item is where the child stands in the collection that the node makes; nil
	// where the node makes a single object.
	Item *Item
	// Layer is the node's place in the order of application, from 0.
	Layer int
	// DependsOn are the nodes that the child's own depends on, DeleteAfter those
	// that have to go before it beside those that depend on it. Both are sorted.
	DependsOn, DeleteAfter []string
	// OnDelete says what becomes of the child when it isn't wanted any more;
	// empty for DeletionDelete.
	OnDelete v1alpha1.DeletionPolicy
	// Stays says that somebody wants the child to outlive its instance, as things are
	// now: the garbage collector isn't told whose it is. It isn't written.
	Stays bool
}

// Mark puts the ownership labels of a node's object and its place onto it, and
// signs it.
func (o Owner) Mark(child *unstructured.Unstructured, at Place) {
	labels := child.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for _, key := range []string{v1alpha1.NodeIDLabel, v1alpha1.CollectionIndexLabel, v1alpha1.CollectionSizeLabel} {
		delete(labels, key)
	}
	maps.Copy(labels, o.Family)
	labels[v1alpha1.ApplySetPartOfLabel] = o.ID()
	if o.Definition.Dialect == object.GraphDialect {
		o.markLabels(labels, at)
		child.SetLabels(labels)
		at.Annotate(child)
		at.sayOrphaned(child)
		if object.LabelValue(o.Name) != o.Name {
			annotations := child.GetAnnotations()
			annotations[v1alpha1.InstanceNameAnnotation] = o.Name
			child.SetAnnotations(annotations)
		}
		o.refer(child, at)
		Sign(child, o.Version)
		return
	}
	if o.Definition.Dialect == object.ClaimDialect {
		labels[v1alpha1.NodeIDLabel] = at.Node
	}
	child.SetLabels(labels)
	at.Annotate(child)
	if o.Definition.Dialect == object.CompositeDialect {
		o.markComposed(child, at)
	}
	o.control(child, at)
	Sign(child, "")
}

// markLabels are the graph dialect's labels of a child.
func (o Owner) markLabels(labels map[string]string, at Place) {
	labels[v1alpha1.OwnedLabel] = "true"
	labels[v1alpha1.ManagedByLabel] = v1alpha1.ManagedByValue
	labels[v1alpha1.InstanceIDLabel] = string(o.UID)
	labels[v1alpha1.InstanceNameLabel] = object.LabelValue(o.Name)
	labels[v1alpha1.InstanceGroupLabel] = object.LabelValue(o.Kind.Group)
	labels[v1alpha1.InstanceVersionLabel] = o.Kind.Version
	labels[v1alpha1.InstanceKindLabel] = o.Kind.Kind
	if o.Namespace != "" {
		labels[v1alpha1.InstanceNamespaceLabel] = o.Namespace
	}
	labels[v1alpha1.NodeIDLabel] = at.Node
	at.Item.mark(labels)
}

// Annotate writes the place on a child, but for the node, which a label names.
func (p Place) Annotate(child *unstructured.Unstructured) {
	annotations := child.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
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
	child.SetAnnotations(annotations)
}

// sayOrphaned says in the dialect's own words, beside ours, that a child is left in
// place: those who know only them can tell.
func (p Place) sayOrphaned(child *unstructured.Unstructured) {
	annotations := child.GetAnnotations()
	delete(annotations, v1alpha1.OrphanedAnnotation)
	if p.OnDelete == v1alpha1.DeletionOrphan {
		annotations[v1alpha1.OrphanedAnnotation] = string(v1alpha1.DeletionOrphaned)
	}
	child.SetAnnotations(annotations)
}

// PlaceOf reads a child's place. What is unreadable counts as not there: such a
// child is deleted, and first.
func PlaceOf(child *unstructured.Unstructured) Place {
	annotations := child.GetAnnotations()
	p := Place{
		Node: Node(child), Item: ItemOf(child), Layer: Layer(child),
		DependsOn:   fields(annotations[v1alpha1.DependsOnAnnotation]),
		DeleteAfter: fields(annotations[v1alpha1.DeleteAfterAnnotation]),
	}
	if policy := v1alpha1.DeletionPolicy(annotations[v1alpha1.OnDeleteAnnotation]); policy.Valid() && policy != v1alpha1.DeletionDelete {
		p.OnDelete = policy
	}
	if p.OnDelete == "" && annotations[v1alpha1.OrphanedAnnotation] == string(v1alpha1.DeletionOrphaned) {
		p.OnDelete = v1alpha1.DeletionOrphan // another implementation of the dialect has made it
	}
	return p
}

// IsRetained says whether a former instance has left the child in place as it was,
// because of its own say, and no other has taken it on since.
func IsRetained(child *unstructured.Unstructured) bool {
	from := child.GetAnnotations()[v1alpha1.RetainedFromAnnotation]
	if from == "" {
		return false
	}
	if id := child.GetLabels()[v1alpha1.InstanceIDLabel]; id != "" {
		return from == id
	}
	ref := metav1.GetControllerOfNoCopy(child)
	return ref == nil || from == string(ref.UID)
}

// IsOrdered says whether a child tells what it depends on. One that an earlier
// version of this program has made doesn't.
func IsOrdered(child *unstructured.Unstructured) bool {
	_, told := child.GetAnnotations()[v1alpha1.DependsOnAnnotation]
	return told
}

// Node is the id of the node that made a child; empty for what isn't one. What a
// composite is composed of has a name in the composition instead.
func Node(child *unstructured.Unstructured) string {
	if id := child.GetLabels()[v1alpha1.NodeIDLabel]; id != "" {
		return id
	}
	return child.GetAnnotations()[apiextensions.CompositionResourceNameAnnotation]
}

// Layer is a child's place in the order of application, from 0; the annotation counts
// from 1. What carries none, or something unreadable, counts as the last layer, so that
// it goes first.
func Layer(child *unstructured.Unstructured) int {
	n, err := strconv.Atoi(child.GetAnnotations()[v1alpha1.ApplyOrderAnnotation])
	if err != nil || n < 0 {
		return lastLayer
	}
	return max(n-1, 0)
}

const lastLayer = 1 << 30

// Applied is the digest of what was last applied to a child.
func Applied(child *unstructured.Unstructured) string {
	return child.GetAnnotations()[v1alpha1.AppliedAnnotation]
}

// Marks lists the labels and annotations by which a child belongs to its
// instance: what an orphan loses. A label that others use too is among them only
// where its value is ours.
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
		v1alpha1.OrphanedAnnotation,
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

// IsInstance says whether an object has been claimed as an instance of a
// definition.
func IsInstance(o *unstructured.Unstructured) bool {
	return o.GetLabels()[v1alpha1.ApplySetIDLabel] != ""
}

// IsComposite says whether an object is a composite that has been claimed, by whatever
// implementation of its dialect.
func IsComposite(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), apiextensions.CompositeFinalizer)
}

// TellsDeletion says whether the status of an object tells what keeps it: of an instance,
// and of a composite of a claim, which another engine may have made and begun to delete.
func TellsDeletion(o *unstructured.Unstructured) bool {
	_, _, claimed := ClaimedBy(o)
	return claimed || IsInstance(o)
}

// IsMark says whether a field of a child is one by which it tells whose it is.
func IsMark(field object.Path) bool {
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
