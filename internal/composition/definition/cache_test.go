package definition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestTheIndexReportsTheAffectedKinds puts objects in an index by their kinds.
func TestTheIndexReportsTheAffectedKinds(t *testing.T) {
	type kinds = []schema.GroupKind
	a, b := schema.GroupKind{Kind: "A"}, schema.GroupKind{Kind: "B"}
	s := index[string]{read: func(o *unstructured.Unstructured) (string, schema.GroupKind, string) {
		return o.GetName(), schema.GroupKind{Kind: o.GetKind()}, o.GetResourceVersion()
	}}
	of := func(kind, name, revision string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		o.SetName(name)
		o.SetResourceVersion(revision)
		return o
	}
	steps := []struct {
		sentence string
		name     string
		o        *unstructured.Unstructured
		affected kinds
		as, bs   []string
	}{
		{"one comes", "2", of("A", "2", "x"), kinds{a}, []string{"2"}, nil},
		{"another comes before it", "1", of("A", "1", "x"), kinds{a}, []string{"1", "2"}, nil},
		{"one is as it was", "1", of("A", "1", "x"), nil, []string{"1", "2"}, nil},
		{"one changes", "1", of("A", "1", "y"), kinds{a}, []string{"1", "2"}, nil},
		{"one is for another kind now", "1", of("B", "1", "y"), kinds{a, b}, []string{"2"}, []string{"1"}},
		{"one cannot be decoded any more", "1", of("B", "1", ""), kinds{b}, []string{"2"}, nil},
		{"it can again", "1", of("B", "1", "z"), kinds{b}, []string{"2"}, []string{"1"}},
		{"one goes", "2", nil, kinds{a}, nil, []string{"1"}},
		{"it goes again", "2", nil, nil, nil, []string{"1"}},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.affected, s.put(step.name, step.o)); diff != "" {
			t.Errorf("%s: affected kinds (-want +got):\n%s", step.sentence, diff)
		}
		as, _ := s.of(a)
		bs, _ := s.of(b)
		if diff := cmp.Diff([][]string{step.as, step.bs}, [][]string{as, bs}); diff != "" {
			t.Errorf("%s: content (-want +got):\n%s", step.sentence, diff)
		}
	}
	s.replace([]*unstructured.Unstructured{of("A", "3", "x")})
	if as, _ := s.of(a); !s.complete || len(s.byName) != 1 || len(as) != 1 {
		t.Errorf("after a list there are %v", s.byName)
	}
}
