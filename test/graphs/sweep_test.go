package graphs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/randomgraph"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// step is a change of a random Graph and of the objects of another manager.
type step struct {
	spec   map[string]any
	theirs map[string]randomgraph.Foreign
	// data is the data of all ConfigMaps in the end, by their names.
	data map[string]map[string]string
	// The controllers crash after this many writes in the first of their lives, and after one more in each that follows.
	writes int
	// They have this many lives before the next step; 0: as many as they need.
	lives   int
	deletes bool
}

// drawSteps draws a Graph that changes a few times, and is deleted.
func drawSteps(t *rapid.T, ns string) (steps []step) {
	g, keepsRevisions := randomgraph.New(), rapid.Bool().Draw(t, "keeps revisions")
	add := func(s step) {
		s.spec, s.theirs, s.data = g.Spec(ns), maps.Clone(g.Theirs), g.Data()
		s.spec["serviceAccountName"] = "builder"
		if keepsRevisions {
			s.spec["revisionHistoryLimit"] = int64(2)
		}
		s.writes = rapid.SampledFrom([]int{1, 1, 2, 3, 5}).Draw(t, "writes")
		steps = append(steps, s)
	}
	for range 6 { // it begins with several nodes
		g.Change(t)
	}
	add(step{lives: rapid.IntRange(0, 2).Draw(t, "lives")})
	for range 3 {
		g.Change(t)
		add(step{lives: rapid.IntRange(0, 2).Draw(t, "lives")})
	}
	g.Change(t)
	add(step{})
	g.Clear()
	add(step{deletes: true})
	return steps
}

// TestSweepRandomGraphs changes random Graphs and the objects of another manager, and the controllers crash after random writes.
// In the end the cluster contains what the nodes say, nothing is written while nothing changes, and the deletion leaves only the
// other manager's objects, with its fields unchanged.
func TestSweepRandomGraphs(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t)
	w := testkit.NewCluster(t, config)
	stop := serve(t, config)
	w.Await(t, suite.CRD, "", "graphs.kro.run", suite.HasCondition("Established", "True", ""))
	idle := newSweep(t, config, w)
	idle.applyValue(t, "first")
	stop()
	seeds, crashes := testkit.Size(12, 100), 0
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s := newSweep(t, config, w)
			for _, p := range rapid.Custom(func(draw *rapid.T) []step { return drawSteps(draw, s.NS) }).Example(seed) {
				if p.deletes {
					s.expectNoWrites(t, idle)
				}
				s.play(t, p)
			}
			crashes += s.crashes
		})
		if t.Failed() {
			break // its Graph would be written while others are swept
		}
	}
	testkit.Report(t, "sweep: %d random Graphs with %d crashes", seeds, crashes)
}

// serve runs controllers of Graphs.
func serve(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	c := suite.Start(t, server.Options{Config: config, Settings: server.Settings{Dialects: []server.Dialect{server.Graph}, Graphs: true}})
	return func() { _ = c.Stop() } // the controllers return an error after a crash
}

const randomName = "random"

// sweep has a namespace for one random Graph.
type sweep struct {
	suite.Suite
	// written contains the objects of the other manager as the API server has answered it, theirs what it last wanted.
	written map[string]*unstructured.Unstructured
	theirs  map[string]randomgraph.Foreign
	crashes int
}

func newSweep(t *testing.T, config *rest.Config, w *testkit.Cluster) *sweep {
	t.Helper()
	s := &sweep{
		Suite:   suite.Suite{Cluster: w, Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)},
		written: map[string]*unstructured.Unstructured{},
	}
	builder(t, s.Suite)
	return s
}

// play changes the cluster, and runs controllers that crash until it is as the step says.
func (s *sweep) play(t *testing.T, p step) {
	t.Helper()
	defer func() {
		if t.Failed() {
			text, _ := yaml.Marshal(p.spec)
			t.Logf("the controllers crash after %d writes or more; deleted: %t; theirs: %v\n%s", p.writes, p.deletes, p.theirs, text)
		}
	}()
	const most = 50
	for life := range cmp.Or(p.lives, most) {
		crash := testkit.NewCrash(p.writes + life) // what takes several writes is repeated until it gets through
		stop := serve(t, crash.Wrap(s.Config))
		if life == 0 {
			s.change(t, p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			select {
			case <-crash.Crashed():
			case <-ctx.Done():
			}
		}()
		err := s.awaitSettled(ctx, t, p)
		cancel()
		stop()
		select {
		case <-crash.Crashed():
			s.crashes++
			continue
		default:
		}
		if err == nil {
			err = s.awaitSettled(t.Context(), t, p) // the controllers may have gone on until they were stopped
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if p.lives == 0 {
		t.Fatalf("the controllers do not come to an end in %d lives", most)
	}
}

// change applies the objects of the other manager, and the Graph or its deletion.
func (s *sweep) change(t *testing.T, p step) {
	t.Helper()
	for name, theirs := range p.theirs {
		before, exists := s.theirs[name]
		if exists && theirs == before {
			continue
		}
		if exists && theirs.Recreated != before.Recreated {
			s.Delete(t, configMap, s.NS, name)
		}
		o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{randomgraph.Theirs: theirs.Value}}}
		o.SetGroupVersionKind(configMap)
		o.SetNamespace(s.NS)
		o.SetName(name)
		o.SetLabels(theirs.Labels())
		written, err := s.TryApply(t, o)
		if err != nil {
			t.Fatal(err)
		}
		s.written[name] = written
	}
	s.theirs = p.theirs
	if p.deletes {
		s.Delete(t, graph.GraphKind, s.NS, randomName)
		return
	}
	s.applyGraph(t, p.spec)
}

func (s *sweep) applyGraph(t *testing.T, spec map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(graph.GraphKind)
	o.SetNamespace(s.NS)
	o.SetName(randomName)
	if _, err := s.TryApply(t, o); err != nil {
		t.Fatal(err)
	}
}

// applyValue applies a Graph without objects, and waits until it is reconciled.
func (s *sweep) applyValue(t *testing.T, value string) {
	t.Helper()
	s.applyGraph(t, map[string]any{"serviceAccountName": "builder", "nodes": []any{map[string]any{"id": "value", "def": value}}})
	s.AwaitReady(t, graph.GraphKind, s.NS, randomName)
}

// awaitSettled waits until the cluster is as the step says.
func (s *sweep) awaitSettled(ctx context.Context, t *testing.T, p step) error {
	t.Helper()
	err := testkit.AwaitList(ctx, s.Resource(t, configMap, s.NS), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		return s.compare(p, objects)
	})
	if err != nil {
		return err
	}
	err = testkit.AwaitList(ctx, s.Resource(t, graph.GraphKind, s.NS), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		return p.checkGraph(objects[s.NS+"/"+randomName])
	})
	if err != nil || !p.deletes {
		return err
	}
	return testkit.AwaitList(ctx, s.Resource(t, controllerRevision, s.NS), metav1.ListOptions{}, func(left map[string]*unstructured.Unstructured) error {
		if len(left) > 0 {
			return fmt.Errorf("%d revisions are left", len(left)) // for the garbage collector
		}
		return nil
	})
}

// checkGraph checks that a Graph is ready and records the contributions that there are, or that it is gone.
func (p step) checkGraph(o *unstructured.Unstructured) error {
	if p.deletes {
		if o != nil {
			return fmt.Errorf("the Graph is still there: %v", o.Object["status"])
		}
		return nil
	}
	if err := testkit.IsReady(o); err != nil {
		return fmt.Errorf("the Graph %w", err)
	}
	var patched []string
	for _, name := range slices.Sorted(maps.Keys(p.data)) {
		if p.data[name][randomgraph.Mine] != "" {
			patched = append(patched, "ConfigMap/"+name)
		}
	}
	return contributes(patched...)(o)
}

// compare compares all ConfigMaps with what the step says. Objects of the other manager must be as it has written them, except
// for the fields of patches.
func (s *sweep) compare(p step, objects map[string]*unstructured.Unstructured) error {
	data, errs := map[string]map[string]string{}, []error(nil)
	for _, o := range objects {
		data[o.GetName()], _, _ = unstructured.NestedStringMap(o.Object, "data")
		written, foreign := s.written[o.GetName()]
		if !foreign {
			continue
		}
		if by, patched := contributors(o), p.data[o.GetName()][randomgraph.Mine] != ""; patched != (len(by) == 1) || len(by) > 1 {
			errs = append(errs, fmt.Errorf("%s is patched: %t, and has fields of %v", o.GetName(), patched, by))
		}
		if diff := gocmp.Diff(withoutContributions(written), withoutContributions(o)); diff != "" {
			errs = append(errs, fmt.Errorf("another manager's %s was changed (-written +read):\n%s", o.GetName(), diff))
		}
	}
	if diff := gocmp.Diff(p.data, data); diff != "" {
		errs = append(errs, fmt.Errorf("the ConfigMaps differ (-evaluated +read):\n%s", diff))
	}
	return errors.Join(errs...)
}

// withoutContributions returns an object without the fields of patches and without its version.
func withoutContributions(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "data", randomgraph.Mine)
	var theirs []metav1.ManagedFieldsEntry
	for _, entry := range out.GetManagedFields() {
		if !strings.HasPrefix(entry.Manager, contributorPrefix) {
			theirs = append(theirs, entry)
		}
	}
	out.SetManagedFields(theirs)
	out.SetResourceVersion("")
	return out
}

// expectNoWrites starts the controllers until they write nothing of the Graph: they may have been stopped before they had
// observed their own last write. A change of the idle Graph is reconciled after what was there at the start.
func (s *sweep) expectNoWrites(t *testing.T, idle *sweep) {
	t.Helper()
	const starts = 3
	for n := range starts {
		var writes atomic.Int64
		crash := testkit.NewCrash(0)
		crash.Log = func(request string) {
			if strings.Contains(request, "/namespaces/"+s.NS+"/") {
				if writes.Add(1); n == starts-1 {
					t.Error("a settled Graph was written:", request)
				}
			}
		}
		stop := serve(t, crash.Wrap(s.Config))
		idle.applyValue(t, fmt.Sprint(s.NS, n))
		stop()
		if writes.Load() == 0 {
			return
		}
	}
}
