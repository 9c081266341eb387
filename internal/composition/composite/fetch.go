package composite

import (
	"context"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// fetcher has the required resources and schemas that were read. Those that were not are needed.
type fetcher struct{ *compositeState }

// requireKnown looks up what the steps are known to require before any function is called, so all of it is read at once.
func (s *compositeState) requireKnown(steps []pipeline.Step) {
	for _, step := range steps {
		for _, r := range []*requirements{step.Requirements, step.LastRequirements} {
			for _, all := range []map[string]*fnv1.ResourceSelector{r.GetResources(), r.GetExtraResources()} { //nolint:staticcheck // functions still ask this way
				for _, selector := range all {
					s.lookupResources(selector)
				}
			}
			for _, selector := range r.GetSchemas() {
				s.lookup(schemaNeed(selector))
			}
		}
	}
}

// requireScopes looks up whether the desired resources are in namespaces.
func (s *compositeState) requireScopes(d *pipeline.Desired) {
	if d == nil {
		return
	}
	for _, r := range d.Resources {
		s.lookup(scopeNeed((&unstructured.Unstructured{Object: r.Object}).GroupVersionKind()))
	}
}

func scopeNeed(kind schema.GroupVersionKind) plan.Need { return plan.Need{Kind: kind, Scope: true} }

// scope reports whether the objects of a kind are in namespaces; unknown for a kind that isn't served now.
func (s *compositeState) scope(kind schema.GroupVersionKind) (namespaced, known bool) {
	found, read := s.facts.External[scopeNeed(kind)]
	return found.Namespaced, read && found.Unreadable == nil
}

func (s *compositeState) lookupResources(selector *fnv1.ResourceSelector) (found plan.Lookup, known bool) {
	need := plan.Need{Kind: schema.FromAPIVersionAndKind(selector.GetApiVersion(), selector.GetKind()), Namespace: selector.GetNamespace()}
	if need.Namespace != "" { // functions may set one for any kind
		scope, known := s.lookup(scopeNeed(need.Kind))
		switch {
		case !known:
			return plan.Lookup{}, false
		case scope.Unreadable == nil && !scope.Namespaced:
			need.Namespace = ""
		}
	}
	if need.Name = selector.GetMatchName(); need.Name == "" {
		need.Multiple, need.Selector = true, labels.SelectorFromSet(selector.GetMatchLabels().GetLabels()).String()
	}
	return s.lookup(need)
}

func (f fetcher) Resources(_ context.Context, s *fnv1.ResourceSelector) (objects []map[string]any, known bool, err error) {
	lookup, known := f.lookupResources(s)
	switch {
	case !known:
		return nil, false, nil
	case lookup.Unreadable != nil:
		return nil, false, fetchError(*lookup.Unreadable)
	}
	found := lookup.Objects
	if lookup.Object != nil {
		found = []*unstructured.Unstructured{lookup.Object}
	}
	for _, o := range found {
		f.secrets.addObject(o)
		objects = append(objects, o.Object)
	}
	return objects, true, nil
}

// fetchError is the error of an unreadable object; nil while its cache is syncing.
func fetchError(unreadable plan.Unreadable) error {
	if unreadable.Reason == plan.Syncing {
		return nil
	}
	return errors.New(unreadable.Message)
}

func schemaNeed(s *fnv1.SchemaSelector) plan.Need {
	return plan.Need{Kind: schema.FromAPIVersionAndKind(s.GetApiVersion(), s.GetKind()), Schema: true}
}

func (f fetcher) Schema(_ context.Context, s *fnv1.SchemaSelector) (doc map[string]any, known bool, err error) {
	lookup, known := f.lookup(schemaNeed(s))
	switch {
	case !known:
		return nil, false, nil
	case lookup.Unreadable != nil:
		return nil, false, errors.New(lookup.Unreadable.Message)
	case lookup.Schema == nil:
		return nil, true, nil
	}
	raw, err := json.Marshal(lookup.Schema)
	if err != nil {
		return nil, false, err
	}
	return doc, true, json.Unmarshal(raw, &doc)
}
