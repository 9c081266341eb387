package composite

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// revisions are those that the API server has.
type revisions struct {
	stored map[string]*v1.CompositionRevision
	err    error
	reads  int
}

func (r *revisions) read(need plan.Need) plan.Lookup {
	if !need.Live {
		return contents{}.read(need)
	}
	r.reads++
	one := r.stored[need.Name]
	switch {
	case r.err != nil:
		return plan.Lookup{Unreadable: &plan.Unreadable{Problem: plan.Problem{Reason: plan.Unavailable, Message: r.err.Error()}}}
	case one == nil:
		return plan.Lookup{}
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(one)
	if err != nil {
		panic(err)
	}
	return plan.Lookup{Object: &unstructured.Unstructured{Object: raw}}
}

// A composite that another replica has just updated, or that was just restored, would lose what only its revision
// composes.
func TestACompositeIsNotRevertedByAnOldCache(t *testing.T) {
	revision := func(name string, number int64, change func(*v1.CompositionRevision)) *v1.CompositionRevision {
		one := composer(nil).Revisions[0].DeepCopy()
		one.Name, one.Spec.Revision = name, number
		one.Status.Conditions = []v1alpha1.Condition{{Type: v1.TypeValidPipeline, Status: "True", Reason: v1.ReasonValidPipeline}}
		if change != nil {
			change(one)
		}
		return one
	}
	cases := map[string]struct {
		reason       string
		current      string
		cached, live []*v1.CompositionRevision
		err          error
		want         string
		reads        int
	}{
		"Its revision is the newest": {
			"nothing is read", "apps-1", []*v1.CompositionRevision{revision("apps-1", 1, nil)}, nil, nil, "apps-1", 0,
		},
		"It has none yet": {
			"nothing is read", "", []*v1.CompositionRevision{revision("apps-1", 1, nil)}, nil, nil, "apps-1", 0,
		},
		"It is updated": {
			"nothing is read for each composite of a new revision", "apps-1",
			[]*v1.CompositionRevision{revision("apps-1", 1, nil), revision("apps-2", 2, nil)}, nil, nil, "apps-2", 0,
		},
		"Its revision is not in the cache": {
			"it exists and is newer", "apps-2",
			[]*v1.CompositionRevision{revision("apps-1", 1, nil)}, []*v1.CompositionRevision{revision("apps-2", 2, nil)}, nil, "apps-2", 1,
		},
		"Its revision was deleted": {
			"it gets the newest of the others", "apps-2", []*v1.CompositionRevision{revision("apps-1", 1, nil)}, nil, nil, "apps-1", 1,
		},
		"Its revision is of another composition": {
			"the composite was moved", "other-9", []*v1.CompositionRevision{revision("apps-1", 1, nil)},
			[]*v1.CompositionRevision{revision("other-9", 9, func(r *v1.CompositionRevision) { r.Labels[v1.CompositionNameLabel] = "other" })}, nil, "apps-1", 1,
		},
		"Its revision cannot be read": {
			"nothing is composed until it can", "apps-2", []*v1.CompositionRevision{revision("apps-1", 1, nil)}, nil, errors.New("no route"), "error", 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := composer(&recorder{wants: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}})
			live := &revisions{stored: map[string]*v1.CompositionRevision{}, err: tc.err}
			for _, one := range tc.live {
				live.stored[one.Name] = one
			}
			xr := instanceOf()
			at := xrd.NewInstance(xr, xrd.LayoutOf(v1.NamespacedScope))
			if tc.current != "" {
				at.SetRevisionName(tc.current)
			}
			c.Revisions = tc.cached
			got := composeAt(t, c, xr, live.read)
			if got != tc.want || live.reads != tc.reads {
				t.Errorf("%s: composed by %s after %d reads; want %s after %d", tc.reason, got, live.reads, tc.want, tc.reads)
			}
		})
	}
}

// composeAt composes a composite, writes its changed fields, and returns the revision.
func composeAt(t *testing.T, c *Composer, xr *unstructured.Unstructured, read func(plan.Need) plan.Lookup) string {
	t.Helper()
	desired, err := instance.ComposeReading(t.Context(), c, plan.Facts{Instance: xr}, read)
	if err != nil {
		return "error"
	}
	for _, f := range desired.Fields {
		if err := unstructured.SetNestedField(xr.Object, f.Value, f.Path...); err != nil {
			t.Fatal(err)
		}
	}
	return xrd.NewInstance(xr, xrd.LayoutOf(v1.NamespacedScope)).RevisionName()
}
