package revision_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// history has revisions of these numbers; those below zero are being deleted.
func history(numbers ...int64) []*rev.GraphRevision {
	var out []*rev.GraphRevision
	for _, n := range numbers {
		r := &rev.GraphRevision{}
		if r.Spec.Revision = n; n < 0 {
			now := metav1.Now()
			r.Spec.Revision, r.DeletionTimestamp = -n, &now
		}
		r.Name = revision.Name(object.Definition{Name: "box"}, r.Spec.Revision)
		out = append(out, r)
	}
	revision.Sort(out)
	return out
}

func TestTargetOf(t *testing.T) {
	to := func(n string, from ...string) map[string]string {
		out := map[string]string{v1alpha1.RollbackAnnotation: n}
		if len(from) > 0 {
			out[v1alpha1.RollbackFromAnnotation] = from[0]
		}
		return out
	}
	cases := map[string]struct {
		annotations map[string]string
		pin         int64
		there       []int64
		want        int64
		why         revision.Reason
		missing     bool
		problems    int
	}{
		"The newest by default":                            {there: []int64{2, 3, 1}, want: 3, why: revision.Latest},
		"Not one that is being deleted":                    {there: []int64{1, 2, -3}, want: 2, why: revision.Latest},
		"None, if there is none":                           {want: 0, why: revision.Latest, missing: true},
		"The one that the spec names":                      {pin: 2, there: []int64{1, 2, 3}, want: 2, why: revision.Pinned},
		"Also if that is being deleted: it is still there": {pin: 2, there: []int64{1, -2, 3}, want: 2, why: revision.Pinned},
		"Nothing in the place of one that isn't there":     {pin: 7, there: []int64{1, 2}, want: 7, why: revision.Pinned, missing: true},
		"A rollback overrides the newest":                  {annotations: to("1"), there: []int64{1, 2}, want: 1, why: revision.RolledBack},
		"And before the spec":                              {annotations: to("1", "3"), pin: 3, there: []int64{1, 2, 3}, want: 1, why: revision.RolledBack},
		"It is over when there is a newer one":             {annotations: to("1", "3"), there: []int64{1, 2, 3, 4}, want: 4, why: revision.Latest},
		"Then the spec counts again":                       {annotations: to("1", "3"), pin: 2, there: []int64{1, 2, 3, 4}, want: 2, why: revision.Pinned},
		"Without the one that it is from, it stays":        {annotations: to("1"), there: []int64{1, 2, 3, 4}, want: 1, why: revision.RolledBack},
		"Without revisions it stays":                       {annotations: to("1", "3"), want: 1, why: revision.RolledBack, missing: true},
		"One that makes no sense is a problem":             {annotations: to("one"), there: []int64{1}, why: revision.RolledBack, missing: true, problems: 1},
		"Also when there is a newer one":                   {annotations: to("one", "3"), there: []int64{1, 4}, why: revision.RolledBack, missing: true, problems: 1},
		"All of it at once":                                {annotations: to("0", "-1"), there: []int64{1}, why: revision.RolledBack, missing: true, problems: 2},
	}
	for name, tc := range cases {
		s := &v1alpha1.DefinitionSpec{}
		if tc.pin != 0 {
			s.Revision = &tc.pin
		}
		got := revision.TargetOf(tc.annotations, s, history(tc.there...))
		if got.Number != tc.want || got.Reason != tc.why || (got.Revision == nil) != tc.missing || len(got.Problems) != tc.problems {
			t.Errorf("%s: got %+v", name, got)
		}
		if got.Revision != nil && got.Revision.Spec.Revision != tc.want {
			t.Errorf("%s: got revision %d", name, got.Revision.Spec.Revision)
		}
	}
}

func TestNumbersAreUsedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		there  []int64
		issued int64
		want   int64
	}{
		"The first is 1":                         {nil, 0, 1},
		"The next is one more":                   {[]int64{1, 2}, 2, 3},
		"Also if the last is going":              {[]int64{1, -2}, 2, 3},
		"Also if the last is gone":               {[]int64{1}, 2, 3},
		"Also if the last number isn't recorded": {[]int64{4, 7}, 0, 8},
	} {
		if got := revision.Next(history(tc.there...), tc.issued); got != tc.want {
			t.Errorf("%s: got %d", name, got)
		}
	}
}

func TestPrunable(t *testing.T) {
	for name, tc := range map[string]struct {
		there []int64
		used  []int64
		want  []int64
	}{
		"As many as the limit says":               {[]int64{1, 2, 3, 4}, nil, []int64{1, 2}},
		"One in use stays beside those":           {[]int64{1, 2, 3, 4}, []int64{1}, []int64{2}},
		"One that is being deleted isn't counted": {[]int64{1, 2, -3, 4}, nil, []int64{1}},
		"A few are all kept":                      {[]int64{1, 2}, nil, nil},
	} {
		used := map[int64]bool{}
		for _, n := range tc.used {
			used[n] = true
		}
		var got []int64
		for _, r := range revision.Prunable(history(tc.there...), 2, used) {
			got = append(got, r.Spec.Revision)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestBelongsTo(t *testing.T) {
	cluster, inside := object.Definition{Name: "box", UID: "1"}, object.Definition{Name: "box", Namespace: "team", UID: "2"}
	for _, d := range []object.Definition{cluster, inside} {
		r := revision.New(d, spec(func(s *v1alpha1.DefinitionSpec) { n := int64(1); s.Revision = &n }), "builder", 4, 2, "test")
		if !revision.BelongsTo(r, d) || revision.BelongsTo(r, object.Definition{Name: "box", Namespace: "other"}) || r.Spec.Snapshot.Spec.Revision != nil || r.Spec.Snapshot.Generation != 4 {
			t.Errorf("got %+v", r)
		}
		if controlled := metav1.GetControllerOf(r) != nil; controlled != (d.Namespace == "") {
			t.Errorf("what is in no namespace can't be controlled by what is in one: %v", r.OwnerReferences)
		}
		hashOf := func(r *rev.GraphRevision) string { return revision.Hash(&r.Spec.Snapshot.Spec) }
		if revision.Current([]*rev.GraphRevision{r}, revision.Hash(spec(nil)), "builder", hashOf) != r {
			t.Error("it isn't what it was made of")
		}
		if revision.Current([]*rev.GraphRevision{r}, revision.Hash(spec(nil)), "controllers", hashOf) != nil {
			t.Error("another account is not another revision")
		}
		r.Spec.Account = "" // of an earlier release
		if revision.Current([]*rev.GraphRevision{r}, revision.Hash(spec(nil)), "controllers", hashOf) != r {
			t.Error("a revision without an account is replaced")
		}
		if r.Labels[rev.HashLabel] != hashOf(r) {
			t.Errorf("its label is %s", r.Labels[rev.HashLabel])
		}
	}
	if got := revision.ListNumbers(history(1, 2, -3, 5)); got != "1, 2 and 5" || !strings.Contains(revision.ListNumbers(nil), "none") {
		t.Errorf("got %q", got)
	}
}
