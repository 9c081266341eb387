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

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// nodes are what the functions want, one node for each resource, in the order of their
// names; the composite's connection details come last.
func (s *sitting) nodes(d *pipeline.Desired) []plan.Node {
	referred := s.referred(d)
	var nodes []plan.Node
	for _, name := range slices.Sorted(maps.Keys(d.Resources)) {
		nodes = append(nodes, s.node(name, d.Resources[name], referred[name]))
	}
	if node, wanted := s.secretNode(d); wanted {
		nodes = append(nodes, node)
	}
	return nodes
}

func (s *sitting) node(name string, r pipeline.Resource, ref xrd.ComposedRef) plan.Node {
	o := &unstructured.Unstructured{Object: r.Object}
	o = o.DeepCopy()
	at := inventory.PlaceOf(o)
	node := plan.Node{
		ID: name, Kind: o.GroupVersionKind(), Object: o, AdoptUnowned: true,
		DependsOn: at.DependsOn, DeleteAfter: at.DeleteAfter, OnDelete: at.OnDelete,
		Conceals: o.GroupVersionKind().GroupKind() == secretKind.GroupKind(),
	}
	if at.Layer < mostLayers {
		node.Layer = at.Layer
	}
	clean(o)
	node.Refused = s.settle(o)
	node.Observed = s.that(name, o) // of another kind or name it goes when the new one is there
	s.setNames(name, o, node.Observed, ref)
	if why := s.impossible(name, o); why != "" {
		node.Refused = plan.Problem{Reason: plan.Rejected, Message: why}
	}
	if node.Observed != nil {
		node.Ready, node.Unready = readiness(name, r.Ready, node.Observed)
	}
	return node
}

// impossible is why an object can't be a part of the composite, if it can't: neither of
// two could ever be deleted.
func (s *sitting) impossible(name string, o *unstructured.Unstructured) string {
	key, self := object.KeyOf(o), s.facts.Instance
	owner := metav1.GetControllerOf(self)
	switch {
	case name == secretNode:
		return "the name is that of the composite's own connection details"
	case key == object.KeyOf(self):
		return "it is the composite itself, which can't be composed of itself"
	case owner == nil:
	case key.GroupKind() == schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() && key.Name == owner.Name && (key.Namespace == "" || key.Namespace == self.GetNamespace()):
		return "it is what the composite itself is a part of"
	}
	return ""
}

// mostLayers bounds what a function may say of the order of deletion.
const mostLayers = 1000

// clean takes off what isn't for functions to say: an observed object that a function has
// passed on carries the server's fields as well.
func clean(o *unstructured.Unstructured) {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
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

// settle puts an object where it belongs: what a composite of a namespace is composed of
// is in that namespace.
func (s *sitting) settle(o *unstructured.Unstructured) plan.Problem {
	namespaced, known := s.world.Namespaced(o.GroupVersionKind())
	own := s.facts.Instance.GetNamespace()
	switch {
	case known && !namespaced && own != "":
		return plan.Problem{Reason: plan.Rejected, Message: fmt.Sprintf("%s is cluster-scoped; a composite of a namespace can be composed of objects of that namespace only", o.GetKind())}
	case known && !namespaced:
		o.SetNamespace("")
	case own != "":
		o.SetNamespace(own)
	case known && o.GetNamespace() == "":
		return plan.Problem{Reason: plan.Rejected, Message: fmt.Sprintf("%s is namespaced, and nothing says which namespace it is for; the composite is cluster-scoped, so the composition has to (metadata.namespace)", o.GetKind())}
	}
	return plan.Problem{}
}

// setNames settles the name of an object, and the prefix of which the name was generated
// where no function gives one. The prefix is of the object's creation: what is there keeps
// that which it has, if it has any.
func (s *sitting) setNames(resource string, o, observed *unstructured.Unstructured, ref xrd.ComposedRef) {
	generated := o.GetName() == ""
	if generated {
		o.SetName(s.name(resource, o, observed, ref))
	}
	switch {
	case observed != nil: // patch-and-transform returns the name of what is there, without the prefix
		o.SetGenerateName(observed.GetGenerateName())
	case generated:
		o.SetGenerateName(s.prefix(o))
	}
}

// prefix begins the name of an object that nobody names.
func (s *sitting) prefix(o *unstructured.Unstructured) string {
	prefix := cmp.Or(o.GetGenerateName(), inventory.RootOf(s.facts.Instance)+"-")
	return strings.ToLower(prefix[:min(len(prefix), longestName-suffixLength)])
}

// name is that of an object that nobody names: the one that it has; or the one that the
// composite refers to it by, since that was written down before it was to be made; or one
// that follows from names, and so is the same after a crash.
func (s *sitting) name(resource string, o, observed *unstructured.Unstructured, ref xrd.ComposedRef) string {
	switch {
	case observed != nil:
		return observed.GetName()
	case ref.Name != "" && ref.GroupVersionKind().GroupKind() == o.GroupVersionKind().GroupKind():
		return ref.Name
	}
	suffix := object.Digest([]string{object.KeyOf(s.facts.Instance).String(), s.facts.Instance.GroupVersionKind().Group, resource})[:suffixLength]
	return s.prefix(o) + suffix
}

const (
	suffixLength = 12
	longestName  = 63
)

// readiness is what the functions say, unless the object's own word on it is of an older
// generation than it has.
func readiness(name string, said fnv1.Ready, o *unstructured.Unstructured) (bool, plan.Problem) {
	unready := func(why string) (bool, plan.Problem) {
		return false, plan.Problem{Reason: plan.NotReady, Message: name + ": " + why}
	}
	switch {
	case o.GetDeletionTimestamp() != nil:
		return unready("it is being deleted")
	case health.Stale(o):
		return unready(fmt.Sprintf("its status tells of an older generation than %d", o.GetGeneration()))
	case said == fnv1.Ready_READY_TRUE:
		return true, plan.Problem{}
	}
	return unready(whyUnready(o))
}

// whyUnready is the deepest cause that an object tells itself.
func whyUnready(o *unstructured.Unstructured) string {
	complaint := diag.Shorten(health.Complaint(o), longestComplaint)
	said, ok := health.Says(o)
	switch {
	case complaint != "":
		return complaint
	case ok && said.Status != "True":
		return cmp.Or(diag.Shorten(said.Message, longestComplaint), said.Reason)
	}
	if h := health.Of(o); !h.Ready {
		return diag.Shorten(h.Message, longestComplaint)
	}
	return "no function of the pipeline says that it is ready"
}

// longestComplaint bounds what is passed on of it, in bytes.
const longestComplaint = 500

func ready(r fnv1.Ready) *bool {
	switch r {
	case fnv1.Ready_READY_TRUE:
		return new(true)
	case fnv1.Ready_READY_FALSE:
		return new(false)
	default:
		return nil
	}
}
