package composite

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/pipeline"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/xrd"
)

// observed are the composed objects that there are, by their names in the composition:
// of several the one that the composite refers to.
func (s *sitting) observed() map[string]*unstructured.Unstructured {
	referred := map[where]bool{}
	for _, ref := range s.xr.Composed() {
		referred[whereIs(ref)] = true
	}
	out := map[string]*unstructured.Unstructured{}
	for name, objects := range s.facts.Owned {
		if name == "" || name == secretNode {
			continue
		}
		objects = slices.Clone(objects)
		rank := func(o *unstructured.Unstructured) int {
			switch {
			case o.GetDeletionTimestamp() != nil:
				return 2
			case !referred[whereIs(s.refTo(o))]:
				return 1
			}
			return 0
		}
		slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
		out[name] = objects[0]
	}
	maps.Copy(out, s.predecessors(out))
	return out
}

// reading says that it isn't known yet what there is of the composite's own: it has just
// been restored, or the controllers have just been started. Functions that don't see what
// there is want less than they did.
func (s *sitting) reading() (problem plan.Problem, reading bool) {
	recorded := inventory.Read(s.facts.Instance).GroupKinds()
	for _, gvk := range slices.SortedFunc(maps.Keys(s.facts.Unread), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }) {
		if blind := s.facts.Unread[gvk]; blind.Reason == plan.Syncing && slices.Contains(recorded, gvk.GroupKind()) {
			return blind.Problem, true
		}
	}
	return plan.Problem{}, false
}

// predecessors are composed objects that another implementation of the dialect has made:
// the composite refers to them without the names that they have in the composition, and
// they say that they are the composite's.
func (s *sitting) predecessors(known map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	owner := inventory.OwnerOf(s.facts.Instance, inventory.Definition{Dialect: inventory.CompositeDialect}, "")
	for _, ref := range s.xr.Composed() {
		if ref.ResourceName != "" || ref.Name == "" || s.isKnown(ref, known) {
			continue
		}
		namespace := ref.Namespace
		if s.xr.Places().Namespaced {
			namespace = s.facts.Instance.GetNamespace()
		}
		found := s.world.Object(plan.Need{Kind: ref.GroupVersionKind(), Namespace: namespace, Name: ref.Name}).Object
		if found == nil || !owner.Owns(found) {
			continue
		}
		if name := inventory.Node(found); name != "" && known[name] == nil {
			out[name] = found
		}
	}
	return out
}

func (s *sitting) isKnown(ref xrd.ComposedRef, known map[string]*unstructured.Unstructured) bool {
	for _, o := range known {
		if whereIs(s.refTo(o)) == whereIs(ref) {
			return true
		}
	}
	return false
}

// refTo refers to an object, without the name that it has in the composition.
func (s *sitting) refTo(o *unstructured.Unstructured) xrd.ComposedRef {
	ref := xrd.ComposedRef{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
	if !s.xr.Places().Namespaced {
		ref.Namespace = o.GetNamespace()
	}
	return ref
}

// where is what a reference refers to.
type where struct{ apiVersion, kind, namespace, name string }

func whereIs(r xrd.ComposedRef) where { return where{r.APIVersion, r.Kind, r.Namespace, r.Name} }

func (s *sitting) observations(observed map[string]*unstructured.Unstructured) map[string]pipeline.Observation {
	out := make(map[string]pipeline.Observation, len(observed))
	for name, o := range observed {
		out[name] = s.observation(o)
	}
	return out
}

// composite is the composite as functions see it: with the status that they have wanted
// in this pass, as if it were written already.
func (s *sitting) composite() pipeline.Observation {
	out := pipeline.Observation{Object: s.facts.Instance.Object}
	if s.memory.status != nil {
		out.Object = maps.Clone(out.Object)
		before, _ := out.Object["status"].(map[string]any)
		status := maps.Clone(before)
		if status == nil {
			status = map[string]any{}
		}
		for name := range xrd.AuthorStatus(before, s.Definition) {
			delete(status, name)
		}
		maps.Copy(status, s.memory.status)
		out.Object["status"] = status
	}
	if secret := s.secret(); secret != nil {
		out.ConnectionDetails = secretData(secret)
	}
	return out
}

// observation is an object as functions see it, with what is needed to connect to it if
// it says where that is.
func (s *sitting) observation(o *unstructured.Unstructured) pipeline.Observation {
	out := pipeline.Observation{Object: o.Object}
	name, _, _ := unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "name")
	if name == "" {
		return out
	}
	namespace := o.GetNamespace() // nobody of a namespace says whose Secret of another is read
	if namespace == "" {
		namespace, _, _ = unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "namespace")
	}
	if namespace == "" {
		return out
	}
	if secret := s.world.Object(plan.Need{Kind: secretKind, Namespace: namespace, Name: name}).Object; secret != nil {
		out.ConnectionDetails = secretData(secret)
	}
	return out
}
