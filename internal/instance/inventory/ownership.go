package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// IsReleasedElsewhere reports whether an instance that is being deleted was never the engine's, and another
// implementation of its dialect has removed the finalizer: the garbage collector deletes its children when the instance
// is gone.
func IsReleasedElsewhere(instance *unstructured.Unstructured, d object.Definition) bool {
	return d.Dialect != object.GraphDialect && instance.GetDeletionTimestamp() != nil &&
		instance.GetLabels()[v1alpha1.ApplySetIDLabel] == "" && !slices.ContainsFunc(instance.GetFinalizers(), IsFinalizer)
}

// GraphManager is the field manager with which kro applies an object for a Graph, which owns the object then; empty for
// none.
func GraphManager(o *unstructured.Unstructured) string {
	for e := range ownership.Entries(o) {
		if strings.HasPrefix(e.Manager, v1alpha1.GraphManagerPrefix) {
			return e.Manager
		}
	}
	return ""
}

// IsGraph reports whether an object is a Graph.
func IsGraph(o *unstructured.Unstructured) bool {
	return o.GetKind() == v1alpha1.GraphKind && o.GroupVersionKind().Group == v1alpha1.GroupVersion.Group
}

// GraphManagerOf is the field manager with which kro applies the objects of the Graph with a UID.
func GraphManagerOf(graph types.UID) string {
	return v1alpha1.GraphManagerPrefix + GraphManagerPart(string(graph))
}

// GraphManagerPart is the part of a field manager's name that stands for a Graph, or for a node of one.
func GraphManagerPart(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:graphManagerPartLength]
}

// graphManagerPartLength is in hexadecimal digits.
const graphManagerPartLength = 12

// IsOfOtherGraph reports whether kro applies an object for a Graph other than this instance.
func (o Owner) IsOfOtherGraph(child *unstructured.Unstructured) bool {
	for e := range ownership.Entries(child) {
		if strings.HasPrefix(e.Manager, v1alpha1.GraphManagerPrefix) && e.Manager != GraphManagerOf(o.UID) {
			return true
		}
	}
	return false
}

// IsAppliedByKRO reports whether kro has applied an object for this Graph, and for no other, and the object is in no other
// ApplySet. The object may be an instance itself.
func (o Owner) IsAppliedByKRO(child *unstructured.Unstructured) bool {
	set := label(child, v1alpha1.ApplySetPartOfLabel)
	return o.Definition.IsGraph() && GraphManager(child) == GraphManagerOf(o.UID) && !o.IsOfOtherGraph(child) && (set == "" || set == o.ID())
}

// IsUnowned reports whether an object that isn't the instance's belongs to no other owner, by its metadata: it is in no
// other ApplySet, has no other controller, and belongs to no other claim and no other Graph of kro's. Metadata that names
// this instance without proof makes no other object its owner.
func (o Owner) IsUnowned(child *unstructured.Unstructured) bool {
	labels := child.GetLabels()
	if set := labels[v1alpha1.ApplySetPartOfLabel]; set != o.ID() && (set != "" || labels[v1alpha1.OwnedLabel] != "") {
		return false
	}
	if key, _, claimed := ClaimedBy(child); claimed && key != o.Key() {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(child)
	return (ref == nil || ref.UID == o.UID) && !o.IsOfOtherGraph(child)
}

// IsClaimable reports whether a composite is marked as one that a claim may take over.
func IsClaimable(composite *unstructured.Unstructured, claim object.Key) bool {
	switch composite.GetAnnotations()[v1alpha1.ClaimableAnnotation] {
	case v1alpha1.ClaimableTrue, claim.Namespace + "/" + claim.Name:
		return true
	}
	return false
}

// DescribeOwner names the owner of an object by its metadata.
func DescribeOwner(o *unstructured.Unstructured) string {
	if by := GraphManager(o); by != "" {
		return "a Graph of kro (field manager " + by + ")"
	}
	labels := o.GetLabels()
	if name := instanceName(o); name != "" {
		return object.Key{Kind: labels[v1alpha1.InstanceKindLabel], Namespace: labels[v1alpha1.InstanceNamespaceLabel], Name: name}.String()
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.Kind + " " + ref.Name
	}
	if key, _, claimed := ClaimedBy(o); claimed {
		return key.String()
	}
	if by := labels[v1alpha1.ManagedByLabel]; by != "" {
		return by
	}
	if set := labels[v1alpha1.ApplySetPartOfLabel]; set != "" {
		return set
	}
	return "no known owner"
}

// DescribeOwnerIn is DescribeOwner for readers of a namespace's objects, or of cluster-scoped ones for "": an owner in
// another namespace is not named, because readers could find out by taken names what exists there.
func DescribeOwnerIn(namespace string, o *unstructured.Unstructured) (text string, hidden bool) {
	of := ""
	labels := o.GetLabels()
	if labels[v1alpha1.InstanceNameLabel] != "" {
		of = labels[v1alpha1.InstanceNamespaceLabel]
	} else if metav1.GetControllerOfNoCopy(o) != nil {
		of = o.GetNamespace()
	} else if key, _, claimed := ClaimedBy(o); claimed {
		of = key.Namespace
	}
	if namespace != "" && of != "" && of != namespace {
		return "an object of another namespace", true
	}
	return DescribeOwner(o), false
}

// InstanceOf returns the instance that a child belongs to, by the child's metadata, with the
// version that created the child.
func InstanceOf(child *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	set := label(child, v1alpha1.ApplySetPartOfLabel)
	if set == "" {
		return object.Key{}, "", false
	}
	for _, read := range []func(*unstructured.Unstructured) (object.Key, string, bool){graphInstanceOf, ClaimedBy, controllerOf, clusterControllerOf} {
		if key, version, ok := read(child); ok && set == ApplySetID(key) {
			return key, version, true
		}
	}
	return object.Key{}, "", false
}

func graphInstanceOf(child *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	key = object.Key{
		Group: label(child, v1alpha1.InstanceGroupLabel), Kind: label(child, v1alpha1.InstanceKindLabel),
		Namespace: label(child, v1alpha1.InstanceNamespaceLabel), Name: instanceName(child),
	}
	key.Group = fullText(child, key.Group, v1alpha1.InstanceGroupAnnotation, v1alpha1.FormerGroupAnnotation)
	version = label(child, v1alpha1.InstanceVersionLabel)
	return key, version, key.Name != "" && version != ""
}

func instanceName(child *unstructured.Unstructured) string {
	return fullText(child, label(child, v1alpha1.InstanceNameLabel), v1alpha1.InstanceNameAnnotation, v1alpha1.FormerNameAnnotation)
}

// fullText is the full text of a label's value, if one of the annotations has it, else the value.
func fullText(child *unstructured.Unstructured, value string, annotations ...string) string {
	for _, key := range annotations {
		if full := annotation(child, key); full != "" && (object.HashedLabelValue(full) == value || object.LabelValue(full) == value) {
			return full
		}
	}
	return value
}

// ClaimedBy is the claim that a composite refers to, with the version that created it.
func ClaimedBy(composite *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	ref, _, _ := unstructured.NestedStringMap(composite.Object, "spec", "claimRef")
	gvk := schema.FromAPIVersionAndKind(ref["apiVersion"], ref["kind"])
	key = object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: ref["namespace"], Name: ref["name"]}
	return key, gvk.Version, key.Kind != "" && key.Name != ""
}

// It is read as one in the object's namespace.
func controllerOf(o *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	key, version, ok = clusterControllerOf(o)
	key.Namespace = o.GetNamespace()
	return key, version, ok
}

// It is read as a cluster-scoped one.
func clusterControllerOf(o *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return object.Key{}, "", false
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Name: ref.Name}, gvk.Version, true
}
