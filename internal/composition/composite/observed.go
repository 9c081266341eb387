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
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// observedState is what functions see of the composite and its resources, or the problem if not all of that can be read.
func (s *compositeState) observedState() (*fnv1.State, plan.Problem) {
	observations, problem := s.observations(s.observedResources())
	if problem.Reason != "" {
		return nil, problem
	}
	state, err := pipeline.NewObservedState(s.compositeObservation(), observations)
	if err != nil {
		return nil, plan.Problem{Reason: plan.PipelineFailed, Message: "cannot encode the observed state for functions: " + err.Error()}
	}
	return state, plan.Problem{}
}

// observedResources are the observed objects, by resource name. If several have the same
// name, the one with the best matchRank is used.
func (s *compositeState) observedResources() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for name := range s.facts.Owned {
		if of := s.owned(name); len(of) > 0 {
			out[name] = of[0]
		}
	}
	return out
}

// owned returns the objects with a resource name, sorted by matchRank. Objects outside the namespace of a namespaced
// composite are foreign, whatever their labels, and are left out.
func (s *compositeState) owned(name string) []*unstructured.Unstructured {
	if name == "" || name == secretNode {
		return nil
	}
	own := s.facts.Instance.GetNamespace()
	out := slices.DeleteFunc(slices.Clone(s.facts.Owned[name]), func(o *unstructured.Unstructured) bool {
		return own != "" && o.GetNamespace() != own
	})
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return s.matchRank(name, a) - s.matchRank(name, b) })
	return out
}

// matchRank ranks the objects with one resource name: lower is better. A copied annotation alone doesn't win over the
// object that the composite's resourceRefs list for the name.
func (s *compositeState) matchRank(name string, o *unstructured.Unstructured) int {
	by, referred := s.resourceNames[objectRefOf(s.refOf(o))]
	switch {
	case o.GetDeletionTimestamp() != nil:
		return 4
	case referred && by == name:
		return 0
	case referred && by == "": // it belonged to another resource, or another implementation created it
		return 1
	case referred:
		return 3
	}
	return 2
}

// findObserved finds the observed object of a desired resource: with its resource name, kind
// and namespace, and with its name if the functions set one.
func (s *compositeState) findObserved(name string, desired *unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range s.owned(name) {
		if o.GroupVersionKind().GroupKind() == desired.GroupVersionKind().GroupKind() &&
			(desired.GetName() == "" || desired.GetName() == o.GetName()) && desired.GetNamespace() == o.GetNamespace() {
			return o
		}
	}
	return nil
}

// refOf returns a reference without a resource name.
func (s *compositeState) refOf(o *unstructured.Unstructured) xrd.ComposedRef {
	ref := xrd.ComposedRef{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName()}
	if !s.xr.Layout().Namespaced {
		ref.Namespace = o.GetNamespace()
	}
	return ref
}

// objectRef is the target of a reference, in any version of its kind.
type objectRef struct{ group, kind, namespace, name string }

func objectRefOf(r xrd.ComposedRef) objectRef {
	return objectRef{r.GroupVersionKind().Group, r.Kind, r.Namespace, r.Name}
}

// observations are the observed objects as functions see them, or the problem if one of them cannot be read: given
// only a part of the observed state, functions would render wrong resources.
func (s *compositeState) observations(observed map[string]*unstructured.Unstructured) (map[string]pipeline.Observation, plan.Problem) {
	if problem := s.unreadableOwned(); problem.Reason != "" {
		return nil, problem
	}
	out := make(map[string]pipeline.Observation, len(observed))
	for name, o := range observed {
		observation, unreadable := s.observation(o)
		if unreadable != nil {
			return nil, unreadableProblem(*unreadable)
		}
		out[name] = observation
	}
	return out, plan.Problem{}
}

// unreadableOwned is the problem if a kind of the composite's children cannot be read. A
// kind that isn't installed has no objects and is no problem.
func (s *compositeState) unreadableOwned() plan.Problem {
	byName := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, kind := range slices.SortedFunc(maps.Keys(s.facts.UnreadableOwned), byName) {
		if unreadable := s.facts.UnreadableOwned[kind]; unreadable.Reason != plan.WaitingForKind {
			return unreadableProblem(unreadable)
		}
	}
	return plan.Problem{}
}

// unreadableProblem is the problem of a composite with an object that cannot be read. If the
// cache is unavailable, it is an error; otherwise the object is readable later.
func unreadableProblem(unreadable plan.Unreadable) plan.Problem {
	if unreadable.Reason == plan.Unavailable {
		return plan.Problem{Reason: plan.PipelineFailed, Message: "cannot compose resources: cannot read the observed resources: " + unreadable.Message}
	}
	return unreadable.Problem
}

// compositeObservation is the composite as functions see it, with the status that they
// desired in an earlier round of this reconcile as if it were written already.
func (s *compositeState) compositeObservation() pipeline.Observation {
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
	if secret := s.observedSecret(); secret != nil {
		out.ConnectionDetails = object.SecretData(secret)
		s.secrets.add(out.ConnectionDetails)
	}
	return out
}

// observation is an object as functions see it, with its connection details if it has a
// spec.writeConnectionSecretToRef.
func (s *compositeState) observation(o *unstructured.Unstructured) (pipeline.Observation, *plan.Unreadable) {
	out := pipeline.Observation{Object: o.Object}
	s.secrets.addObject(o)
	name, _, _ := unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "name")
	namespace := o.GetNamespace() // a namespaced object can't name a Secret of another namespace
	if namespace == "" {
		namespace, _, _ = unstructured.NestedString(o.Object, "spec", "writeConnectionSecretToRef", "namespace")
	}
	if name == "" || namespace == "" {
		return out, nil
	}
	secret, _ := s.lookup(plan.Need{Kind: secretKind, Namespace: namespace, Name: name})
	if secret.Object != nil {
		out.ConnectionDetails = object.SecretData(secret.Object)
		s.secrets.add(out.ConnectionDetails)
	}
	return out, secret.Unreadable
}
