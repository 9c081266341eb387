package standalone

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func TestNextHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded, digest string
		limit            int
		want             string
	}{
		"without the option":            {"", "a", 0, "keep []"},
		"the first spec":                {"", "a", 3, "keep [1a] create"},
		"the same spec":                 {"1a", "a", 3, "keep [1a]"},
		"another spec":                  {"1a", "b", 3, "keep [1a 2b] create"},
		"a former spec has a new one":   {"1a 2b", "a", 3, "keep [1a 2b 3a] create"},
		"the oldest are deleted":        {"1a 2b 3c", "d", 2, "keep [3c 4d] create, delete [1a 2b]"},
		"a limit of one keeps this":     {"4d", "e", 1, "keep [5e] create, delete [4d]"},
		"a lower limit":                 {"1a 2b 3c", "c", 2, "keep [2b 3c], delete [1a]"},
		"a higher limit":                {"2b 3c", "c", 5, "keep [2b 3c]"},
		"the option is removed":         {"2b 3c", "c", 0, "keep [], delete [2b 3c]"},
		"it is removed with a new spec": {"2b 3c", "d", 0, "keep [], delete [2b 3c]"},
	} {
		var recorded []v1alpha1.SpecRevision
		for _, text := range strings.Fields(tc.recorded) {
			recorded = append(recorded, v1alpha1.SpecRevision{Revision: int64(text[0] - '0'), Digest: text[1:]})
		}
		next := nextHistory(recorded, tc.digest, tc.limit)
		text := func(of []v1alpha1.SpecRevision) string {
			var out []string
			for _, r := range of {
				out = append(out, fmt.Sprint(r.Revision, r.Digest))
			}
			return fmt.Sprint(out)
		}
		got := "keep " + text(next.kept)
		if next.created {
			got += " create"
		}
		if len(next.dropped) > 0 {
			got += ", delete " + text(next.dropped)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

const recordedGraph = `
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: shop, namespace: apps, uid: 9c6b}
spec: {revisionHistoryLimit: 2, nodes: [{id: a, def: {x: 1}}]}
`

// recording is a Graph whose specs are recorded in a fake cluster.
type recording struct {
	*fakekube.Cluster
	graphs *Graphs
}

func newRecording() recording {
	c := fakekube.New(recordedGraph)
	return recording{c, New(Config{Cluster: c.Client(), Events: c})}
}

// reconcile records the spec, and writes the status as the instance engine does. An accepted spec has a value.
func (r recording) reconcile(t *testing.T, status bool) error {
	t.Helper()
	o := r.graph()
	p := &program{accepted: true}
	err := r.graphs.recordSpec(t.Context(), p, o)
	if status && err == nil && fmt.Sprint(p.revisions) != fmt.Sprint(Revisions(o)) {
		r.Change(object.KeyOf(o), func(o *unstructured.Unstructured) {
			o.Object["status"] = map[string]any{revisionsField: statusOf(p.revisions)}
		})
	}
	return err
}

func (r recording) graph() *unstructured.Unstructured {
	return r.Object(object.Key{Group: graph.GraphKind.Group, Kind: graph.GraphKind.Kind, Namespace: "apps", Name: "shop"})
}

func (r recording) set(value, limit int64) {
	r.Change(object.KeyOf(r.graph()), func(o *unstructured.Unstructured) {
		o.Object["spec"] = map[string]any{"nodes": []any{map[string]any{"id": "a", "def": map[string]any{"x": value}}}}
		if limit > 0 {
			o.Object["spec"].(map[string]any)[LimitField] = limit
		}
	})
}

// String lists the revisions as number=value, each of which its ControllerRevision confirms, and then those that the status does not have.
func (r recording) String() string {
	var out []string
	o := r.graph()
	listed := map[string]bool{}
	for _, one := range Revisions(o) {
		name := RevisionName("shop", o.GetUID(), one.Revision)
		listed[name] = true
		stored := r.Object(object.Key{Group: "apps", Kind: "ControllerRevision", Namespace: "apps", Name: name})
		if stored == nil {
			out = append(out, fmt.Sprintf("%d is missing", one.Revision))
			continue
		}
		content, err := RecordedContent(stored, one)
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		out = append(out, fmt.Sprintf("%d=%v", one.Revision, content["nodes"].([]any)[0].(map[string]any)["def"].(map[string]any)["x"]))
	}
	for _, key := range r.Keys() {
		if key.Kind == "ControllerRevision" && !listed[key.Name] {
			out = append(out, "unlisted "+key.Name)
		}
	}
	return strings.Join(out, " ")
}

// TestSpecsAreRecorded has a Graph change, go back, and lose the option: at rest, nothing is requested.
func TestSpecsAreRecorded(t *testing.T) {
	r := newRecording()
	for _, step := range []struct {
		value, limit int64
		want         string
	}{
		{1, 2, "1=1"}, {2, 2, "1=1 2=2"}, {1, 2, "2=2 3=1"}, {1, 1, "3=1"}, {3, 2, "3=1 4=3"}, {3, 0, ""}, {4, 0, ""}, {4, 2, "1=4"},
	} {
		r.set(step.value, step.limit)
		if err := r.reconcile(t, true); err != nil {
			t.Fatal(err)
		}
		if got := r.String(); got != step.want {
			t.Fatalf("value %d, limit %d: %q, want %q", step.value, step.limit, got, step.want)
		}
		before := len(r.Requests)
		if err := r.reconcile(t, true); err != nil || len(r.Requests) != before {
			t.Errorf("value %d, limit %d: at rest %q, %v", step.value, step.limit, r.Requests[before:], err)
		}
	}
	o := r.graph()
	for name, p := range map[string]*program{"not accepted": {}, "suspended": {accepted: true}} {
		o.SetAnnotations(map[string]string{v1alpha1.ReconcileAnnotation: v1alpha1.ReconcileSuspended})
		r.set(5, 2)
		before := len(r.Requests)
		if err := r.graphs.recordSpec(t.Context(), p, o); err != nil || len(r.Requests) != before || len(p.revisions) != 1 {
			t.Errorf("%s: %q, %v, %v", name, r.Requests[before:], p.revisions, err)
		}
	}
}

// TestACrashLosesNoRevision stops the controllers before and after each request of a change, and before the status is written; then
// the spec stays as it is, or changes again.
func TestACrashLosesNoRevision(t *testing.T) {
	crash := errors.New("crashed")
	for _, again := range []bool{false, true} {
		for n := 0; ; n++ {
			r := newRecording()
			for value := range int64(2) {
				r.set(value, 2)
				if err := r.reconcile(t, true); err != nil {
					t.Fatal(err)
				}
			}
			r.set(2, 2)
			left := n / 2
			stop := func(string) error {
				if left--; left < 0 {
					return crash
				}
				return nil
			}
			if n%2 == 0 {
				r.Before = stop
			} else {
				r.After = stop
			}
			err := r.reconcile(t, false)
			r.Before, r.After = nil, nil
			want := "2=1 3=2"
			if again {
				r.set(3, 2)
				want = "2=1 3=3"
			}
			if err := r.reconcile(t, true); err != nil {
				t.Fatal(err)
			}
			if got := r.String(); got != want {
				t.Errorf("crash %d, changed again %t: %q, want %q", n, again, got, want)
			}
			if err == nil { // the status alone was lost
				break
			}
		}
	}
}

// TestAnOutdatedGraphReplacesNoRevision has a reconcile see a Graph before the status that a former leader wrote.
func TestAnOutdatedGraphReplacesNoRevision(t *testing.T) {
	r := newRecording()
	outdated := r.graph()
	if err := r.reconcile(t, true); err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(outdated.Object, int64(1), "spec", "nodes")
	if err := r.graphs.recordSpec(t.Context(), &program{accepted: true}, outdated); !errors.Is(err, errOutdated) {
		t.Error(err)
	}
	if got := r.String(); got != "1=1" || !slices.ContainsFunc(r.Events, func(e string) bool { return strings.Contains(e, "RevisionNotKept") }) {
		t.Errorf("%s, %q", got, r.Events)
	}
}

func TestARevisionThatAnotherClientReplacedIsRecognized(t *testing.T) {
	o := fakekube.Parse(recordedGraph)
	content := Content(o)
	recorded := v1alpha1.SpecRevision{Revision: 1, Digest: object.Digest(content)}
	stored := encodeRevision(o, 1, content)
	if _, err := RecordedContent(stored, recorded); err != nil {
		t.Error(err)
	}
	_ = unstructured.SetNestedField(stored.Object, "mighty", "data", "spec", "serviceAccountName")
	if got, err := RecordedContent(stored, recorded); got != nil || err == nil || !strings.Contains(err.Error(), "another client has replaced it") {
		t.Error(got, err)
	}
}

func TestRevisionNamesAreDistinctAndValid(t *testing.T) {
	long := strings.Repeat("a.", 126) + "a"
	seen := map[string]bool{}
	for _, name := range []string{RevisionName("shop", "1", 1), RevisionName("shop", "1", 2), RevisionName("shop", "2", 1), RevisionName(long, "1", 1), RevisionName(long, "1", 2)} {
		if seen[name] || len(name) > 253 || strings.Contains(name, ".-") {
			t.Error(name)
		}
		seen[name] = true
	}
}
