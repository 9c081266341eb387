package composite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// nodes are the desired resources, one node for each, sorted by name. The Secret with the
// composite's connection details comes last.
func (s *compositeState) nodes(d *pipeline.Desired) []plan.Node {
	refs := s.refsByResource(d)
	secrets := s.secrets.search()
	var nodes []plan.Node
	for _, name := range slices.Sorted(maps.Keys(d.Resources)) {
		node := s.node(name, d.Resources[name], refs[name])
		found, inKeys := secrets.areIn(d.Resources[name].Object)
		node.Sensitive, node.SecretFields = node.Sensitive || found, inKeys
		nodes = append(nodes, node)
	}
	if node, wanted := s.secretNode(d); wanted {
		nodes = append(nodes, node)
	}
	return nodes
}

func (s *compositeState) node(name string, r pipeline.Resource, ref xrd.ComposedRef) plan.Node {
	o := &unstructured.Unstructured{Object: r.Object}
	o = o.DeepCopy()
	if o.Object["metadata"] == nil { // null counts as absent
		delete(o.Object, "metadata")
	}
	at := inventory.PlaceOf(o)
	node := plan.Node{
		ID: name, Kind: o.GroupVersionKind(), Object: o, AdoptUnowned: adoptsUnowned(o),
		DependsOn: at.DependsOn, DeleteAfter: at.DeleteAfter, OnDelete: at.OnDelete,
		Sensitive: o.GroupVersionKind().GroupKind() == secretKind.GroupKind(),
	}
	if at.Layer < maxLayers {
		node.Layer = at.Layer
	}
	removeServerFields(o)
	named := o.GetNamespace()
	node.Refusal = s.setNamespace(o)
	node.Observed = s.findObserved(name, o) // an object of another kind or name is deleted once the new one exists
	s.memory.moved.record(name, named, o.GetNamespace(), node.Observed != nil)
	s.setNames(name, o, node.Observed, ref)
	if why := s.cycleProblem(name, o); why != "" {
		node.Refusal = plan.Problem{Reason: plan.Rejected, Message: why}
	}
	if node.Observed != nil {
		node.Ready, node.Unready = readiness(name, r.Ready, node.Observed)
		node.Unready.Message = s.secrets.redact(node.Unready.Message)
	}
	return node
}

// cycleProblem is why an object cannot be a child of the composite, or "": if two objects
// owned each other, neither could be deleted.
func (s *compositeState) cycleProblem(name string, o *unstructured.Unstructured) string {
	key, self := object.KeyOf(o), s.facts.Instance
	owner := metav1.GetControllerOf(self)
	switch {
	case name == secretNode:
		return "the name is reserved for the composite's connection details"
	case key == object.KeyOf(self):
		return "a composite cannot compose itself"
	case owner == nil:
	case key.GroupKind() == schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() && key.Name == owner.Name &&
		(key.Namespace == "" || key.Namespace == self.GetNamespace()):
		return "a composite cannot compose its own controller"
	}
	return ""
}

// adoptsUnowned reports whether a composed resource takes over an existing object without owner: its composition says
// so. Otherwise a tenant could make a composite change and delete what was not composed, where a field of the
// composite or of its claim gives the name. No composite takes over a CustomResourceDefinition: it would be deleted
// with the composite, and all its objects with it.
func adoptsUnowned(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[v1alpha1.AdoptAnnotation] == string(v1alpha1.AdoptIfUnowned) && o.GroupVersionKind().GroupKind() != plan.CRDKind
}

// maxLayers bounds the layer that a function may set for the order of deletion.
const maxLayers = 1000

// removeServerFields removes the fields that functions cannot set. Functions may return an
// observed object as desired, with the fields that the server sets.
func removeServerFields(o *unstructured.Unstructured) {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	labels, annotations := inventory.Marks(o)
	for _, key := range labels {
		unstructured.RemoveNestedField(o.Object, "metadata", "labels", key)
	}
	for _, key := range annotations {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", key)
	}
}

// setNamespace sets an object's namespace: children of a namespaced composite are in its
// namespace, and cluster-scoped objects have none.
func (s *compositeState) setNamespace(o *unstructured.Unstructured) plan.Problem {
	namespaced, known := s.scope(o.GroupVersionKind())
	own := s.facts.Instance.GetNamespace()
	switch {
	case known && !namespaced && own != "":
		return plan.Problem{Reason: plan.Rejected,
			Message: fmt.Sprintf("%s is cluster-scoped; a namespaced composite can only compose objects in its namespace", o.GetKind())}
	case known && !namespaced:
		o.SetNamespace("")
	case own != "":
		o.SetNamespace(own)
	case known && o.GetNamespace() == "":
		return plan.Problem{Reason: plan.Rejected,
			Message: fmt.Sprintf("%s is namespaced and has no namespace; the composite is cluster-scoped, so the composition must set metadata.namespace",
				o.GetKind())}
	}
	return plan.Problem{}
}

// setNames sets an object's name, and its generateName if no function sets a name. An
// existing object keeps its generateName, which is only used for its creation.
func (s *compositeState) setNames(resource string, o, observed *unstructured.Unstructured, ref xrd.ComposedRef) {
	generated := o.GetName() == ""
	if generated {
		o.SetName(s.generateName(resource, o, observed, ref))
	}
	switch {
	case observed != nil: // patch-and-transform returns the observed name without generateName
		o.SetGenerateName(observed.GetGenerateName())
	case generated:
		o.SetGenerateName(s.namePrefix(o))
	}
}

func (s *compositeState) namePrefix(o *unstructured.Unstructured) string {
	prefix := cmp.Or(o.GetGenerateName(), inventory.RootOf(s.facts.Instance)+"-")
	return strings.ToLower(prefix[:min(len(prefix), maxNameLength-suffixLength)])
}

// generateName is the name of an object that no function names: its observed name, or the name in the composite's
// reference, which was written before the object was to be created, or else a name computed from the composite and
// the resource, so it is the same after a crash.
func (s *compositeState) generateName(resource string, o, observed *unstructured.Unstructured, ref xrd.ComposedRef) string {
	switch {
	case observed != nil:
		return observed.GetName()
	case ref.Name != "" && ref.GroupVersionKind().GroupKind() == o.GroupVersionKind().GroupKind():
		return ref.Name
	}
	suffix := object.Digest([]string{object.KeyOf(s.facts.Instance).String(), s.facts.Instance.GroupVersionKind().Group, resource})[:suffixLength]
	return s.namePrefix(o) + suffix
}

const (
	suffixLength  = 12
	maxNameLength = 63
)

// readiness is the readiness that the functions set, except that an object isn't ready while
// it is being deleted or its status is for an older generation.
func readiness(name string, desired fnv1.Ready, o *unstructured.Unstructured) (bool, plan.Problem) {
	unready := func(why string) (bool, plan.Problem) {
		return false, plan.Problem{Reason: plan.NotReady, Message: name + ": " + why}
	}
	switch {
	case o.GetDeletionTimestamp() != nil:
		return unready("it is being deleted")
	case health.PendingChange(o) != "":
		return unready(diag.TruncateMiddle(health.PendingChange(o), maxEchoedMessage))
	case health.Stale(o):
		return unready(fmt.Sprintf("its status is for an older generation than %d", o.GetGeneration()))
	case desired == fnv1.Ready_READY_TRUE:
		return true, plan.Problem{}
	}
	return unready(unreadyReason(o))
}

// unreadyReason is the most specific cause in the object's own status.
func unreadyReason(o *unstructured.Unstructured) string {
	complaint := diag.TruncateMiddle(health.SyncProblem(o), maxEchoedMessage)
	said, ok := health.ReadyConditionOf(o)
	switch {
	case complaint != "":
		return complaint
	case ok && said.Status != "True":
		return cmp.Or(diag.TruncateMiddle(said.Message, maxEchoedMessage), said.Reason)
	}
	if h := health.Of(o); !h.Ready {
		return diag.TruncateMiddle(h.Message, maxEchoedMessage)
	}
	return "no function of the pipeline set it ready"
}

// maxEchoedMessage is in bytes.
const maxEchoedMessage = 500

func readyOf(r fnv1.Ready) *bool {
	switch r {
	case fnv1.Ready_READY_TRUE:
		return new(true)
	case fnv1.Ready_READY_FALSE:
		return new(false)
	default:
		return nil
	}
}
