package composite

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// observed are the composed objects that there are, by their names in the composition:
// of several the one that is the likeliest to be meant.
func (s *sitting) observed() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for name := range s.facts.Owned {
		if of := s.owned(name); len(of) > 0 {
			out[name] = of[0]
		}
	}
	return out
}

// owned are the objects that carry a name of the composition, those that the composite
// refers to by it first. What is of another namespace than a composite of one has been
// made by somebody else, whatever it says.
func (s *sitting) owned(name string) []*unstructured.Unstructured {
	if name == "" || name == secretNode {
		return nil
	}
	own := s.facts.Instance.GetNamespace()
	out := slices.DeleteFunc(slices.Clone(s.facts.Owned[name]), func(o *unstructured.Unstructured) bool {
		return own != "" && o.GetNamespace() != own
	})
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return s.doubt(name, a) - s.doubt(name, b) })
	return out
}

// doubt grows with what speaks against an object being that of a name. Somebody may have
// put the name onto another's; but not onto the reference as well.
func (s *sitting) doubt(name string, o *unstructured.Unstructured) int {
	by, referred := s.named[whereIs(s.refTo(o))]
	switch {
	case o.GetDeletionTimestamp() != nil:
		return 4
	case referred && by == name:
		return 0
	case referred && by == "": // it was another's, or another implementation has made it
		return 1
	case referred:
		return 3
	}
	return 2
}

// that is the object, of those of a name, that a resource is now: that of its kind and, if
// the functions say so, of its name and namespace.
func (s *sitting) that(name string, is *unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range s.owned(name) {
		if o.GroupVersionKind().GroupKind() == is.GroupVersionKind().GroupKind() &&
			(is.GetName() == "" || is.GetName() == o.GetName()) && is.GetNamespace() == o.GetNamespace() {
			return o
		}
	}
	return nil
}

// refTo refers to an object, without the name that it has in the composition.
func (s *sitting) refTo(o *unstructured.Unstructured) xrd.ComposedRef {
	ref := xrd.ComposedRef{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
	if !s.xr.Places().Namespaced {
		ref.Namespace = o.GetNamespace()
	}
	return ref
}

// where is what a reference refers to, in whatever version of its kind.
type where struct{ group, kind, namespace, name string }

func whereIs(r xrd.ComposedRef) where {
	return where{r.GroupVersionKind().Group, r.Kind, r.Namespace, r.Name}
}

// observations is what functions are told of objects; or why that can't be told now. What
// they would make of a part of it is nothing that anybody wants.
func (s *sitting) observations(observed map[string]*unstructured.Unstructured) (map[string]pipeline.Observation, plan.Problem) {
	if problem := s.unseen(); problem.Reason != "" {
		return nil, problem
	}
	out := make(map[string]pipeline.Observation, len(observed))
	for name, o := range observed {
		told, blind := s.observation(o)
		if blind != nil {
			return nil, unknown(*blind)
		}
		out[name] = told
	}
	return out, plan.Problem{}
}

// unseen is why it isn't known what the composite is composed of, if it isn't. Of a kind
// that isn't there, there are no objects.
func (s *sitting) unseen() plan.Problem {
	byName := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, kind := range slices.SortedFunc(maps.Keys(s.facts.UnreadableOwned), byName) {
		if blind := s.facts.UnreadableOwned[kind]; blind.Reason != plan.WaitingForKind {
			return unknown(blind)
		}
	}
	return plan.Problem{}
}

// unknown is the problem of a composite that something can't be told of: one that passes,
// or one that somebody has to see to.
func unknown(blind plan.Unreadable) plan.Problem {
	if blind.Reason == plan.Unavailable {
		return plan.Problem{Reason: plan.PipelineFailed, Message: "cannot compose resources: what there is can't be told: " + blind.Message}
	}
	return blind.Problem
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
func (s *sitting) observation(o *unstructured.Unstructured) (pipeline.Observation, *plan.Unreadable) {
	out := pipeline.Observation{Object: o.Object}
	name, _, _ := unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "name")
	namespace := o.GetNamespace() // nobody of a namespace says whose Secret of another is read
	if namespace == "" {
		namespace, _, _ = unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "namespace")
	}
	if name == "" || namespace == "" {
		return out, nil
	}
	look := s.world.Object(plan.Need{Kind: secretKind, Namespace: namespace, Name: name})
	if look.Object != nil {
		out.ConnectionDetails = secretData(look.Object)
	}
	return out, look.Unreadable
}
