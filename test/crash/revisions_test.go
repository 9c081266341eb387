package crash

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

const waves = "rollout: {waves: [{percent: 50, pause: 1h}]}"

// boxDefinition is a definition of boxes; edition is a value in their children.
func boxDefinition(group, word, more string) string {
	return fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %[1]s}
spec:
  %[3]s
  schema: {apiVersion: v1alpha1, kind: Box, group: %[1]s, spec: {a: string}, status: {edition: "${content.data.edition}"}}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {edition: %[2]s}}
`, group, word, more)
}

// TestRevisionsServeAcrossRestarts restarts the controllers while the definition is broken,
// and while a rollout is under way: what served continues serving.
func TestRevisionsServeAcrossRestarts(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	rgd := schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	box4 := []string{"a", "b", "c", "d"}
	put := func(names ...string) {
		for _, name := range names {
			w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: %s, namespace: %s}\n", group, name, ns))
		}
	}
	editionOf := func(o *unstructured.Unstructured) string {
		word, _, _ := unstructured.NestedString(o.Object, "status", "edition")
		return word
	}
	is := func(name, word string) {
		t.Helper()
		w.Await(t, box, ns, name, func(o *unstructured.Unstructured) error {
			if o == nil || editionOf(o) != word {
				return errors.New("is not edition " + word)
			}
			return testkit.IsReady(o)
		})
	}
	status := func(so func(map[string]any) bool) {
		t.Helper()
		w.Await(t, rgd, "", group, func(o *unstructured.Unstructured) error {
			if said, _, _ := unstructured.NestedMap(o.Object, "status"); !so(said) {
				return errors.New("does not say so")
			}
			return nil
		})
	}
	stop := steps.Run(t, config)
	defer func() { stop() }()
	w.Apply(t, boxDefinition(group, "one", waves))
	w.AwaitReady(t, rgd, "", group)
	put(box4...)
	for _, name := range box4 {
		is(name, "one")
	}

	t.Log("in the middle of a rollout")
	w.Apply(t, boxDefinition(group, "two", waves))
	pausing := func(s map[string]any) bool {
		rollout, _ := s["rollout"].(map[string]any)
		ready, _ := rollout["ready"].(int64)
		return rollout["phase"] == "Pausing" && ready >= 2 && s["servingRevision"] == int64(1) // one that comes may belong to the wave
	}
	status(pausing)
	paused := testkit.JSON(w.Get(t, rgd, "", group))
	want := map[string]string{}
	for _, name := range box4 {
		want[name] = editionOf(w.Get(t, box, ns, name))
	}
	stop()
	stop = steps.Run(t, config)
	patch := `{"spec":{"a":"b"}}`
	w.Patch(t, box, ns, "d", patch)
	w.AwaitReady(t, box, ns, "d") // it is looked at last
	if now := testkit.JSON(w.Get(t, rgd, "", group)); now != paused {
		t.Errorf("the definition was %s and is %s", paused, now)
	}
	put("new")
	w.AwaitReady(t, box, ns, "new")
	status(pausing)
	for name, word := range want {
		is(name, word)
	}

	t.Log("and its waves make no sense after the restart: all are composed as before")
	stop()
	w.Apply(t, boxDefinition(group, "two", "rollout: {waves: [{percent: 50}, {percent: 20}]}"))
	stop = steps.Run(t, config)
	w.Await(t, rgd, "", group, func(o *unstructured.Unstructured) error {
		if reason := testkit.ConditionReason(o, "GraphRevisionsResolved"); reason != "InvalidRollout" {
			return errors.New("it says " + reason)
		}
		return nil
	})
	for _, name := range box4 {
		w.Delete(t, suite.ConfigMap, ns, name)
	}
	for name, word := range want {
		w.Await(t, suite.ConfigMap, ns, name, func(o *unstructured.Unstructured) error {
			if o == nil {
				return errors.New("is gone")
			}
			if made, _, _ := unstructured.NestedString(o.Object, "data", "edition"); made != word {
				return errors.New("is of edition " + made + ", not " + word)
			}
			return nil
		})
	}

	t.Log("the newest content is broken, and nothing is remembered: the one that served serves")
	w.Apply(t, boxDefinition(group, "two", ""))
	for _, name := range box4 {
		is(name, "two")
	}
	w.Apply(t, boxDefinition(group, `"${nothing}"`, ""))
	status(func(s map[string]any) bool { return s["state"] == "Inactive" && s["servingRevision"] == int64(2) })
	stop()
	stop = steps.Run(t, config)
	put("late")
	is("late", "two")
	if list := w.Get(t, definition.RevisionKind, "", group+"-r00003"); list != nil {
		t.Error("what does not compile is a revision")
	}

	t.Log("its revisions go with it")
	for _, name := range append(box4, "new", "late") {
		w.Delete(t, box, ns, name)
		w.AwaitGone(t, box, ns, name)
	}
	w.Delete(t, rgd, "", group)
	w.AwaitGone(t, rgd, "", group)
	w.AwaitGone(t, definition.RevisionKind, "", group+"-r00001")
	w.AwaitGone(t, definition.RevisionKind, "", group+"-r00002")
}

// TestACrashIssuesNoRevisionTwice stops the controllers after each write while a definition is
// created, and is changed while two instances follow in waves.
func TestACrashIssuesNoRevisionTwice(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	writes, points := 0, 0
	for n := 0; n == 0 || n <= writes; n += testkit.Size(3, 1) {
		crash := testkit.NewCrash(n)
		stop := crash.RunAndRestart(config, func(c *rest.Config) func() { return steps.Run(t, c) })
		group, ns := testkit.Group(t), testkit.Namespace(t, config)
		exerciseRevisions(t, w, group, ns)
		if n == 0 {
			writes = crash.Writes() + 1
		} else {
			points++
		}
		stop()
	}
	testkit.Report(t, "sweep: %d crash points in the life of a definition with revisions", points)
}

// refusedStatus refuses the status writes of definitions while it is on, and then sends to refused.
type refusedStatus struct {
	on      atomic.Bool
	refused chan struct{}
}

func (s *refusedStatus) wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{s, next} })
	return wrapped
}

type refusing struct {
	*refusedStatus
	next http.RoundTripper
}

func (s refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.on.Load() && testkit.IsWrite(r) && strings.Contains(r.URL.Path, "/resourcegraphdefinitions/") && strings.HasSuffix(r.URL.Path, "/status") {
		select {
		case s.refused <- struct{}{}:
		default:
		}
		return nil, errors.New("refused by the test")
	}
	return s.next.RoundTrip(r)
}

// TestARevisionThatIsNotRecordedComposesNothing refuses the status write that would record the revision of a
// changed definition, and changes the definition again, to a revision that cannot serve. An instance that had been
// composed by the second would be reverted to the first.
func TestARevisionThatIsNotRecordedComposesNothing(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	composed := func(edition string) {
		t.Helper()
		w.Await(t, suite.ConfigMap, ns, "a", func(o *unstructured.Unstructured) error {
			if is, _, _ := unstructured.NestedString(content(o), "data", "edition"); is != edition {
				return fmt.Errorf("the ConfigMap is of edition %q", is)
			}
			return nil
		})
	}
	status := &refusedStatus{refused: make(chan struct{}, 1)}
	defer steps.Run(t, status.wrap(config))()
	w.Apply(t, boxDefinition(group, "one", ""))
	w.AwaitReady(t, suite.RGD, "", group)
	w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: a, namespace: %s}\n", group, ns))
	w.AwaitReady(t, box, ns, "a")

	status.on.Store(true)
	w.Apply(t, boxDefinition(group, "two", ""))
	<-status.refused
	w.Delete(t, suite.ConfigMap, ns, "a")
	composed("one")
	w.Apply(t, strings.Replace(boxDefinition(group, "three", ""), "spec: {a: string}", "spec: {b: string}", 1))
	status.on.Store(false)
	w.Await(t, suite.RGD, "", group, func(o *unstructured.Unstructured) error {
		if serving, _, _ := unstructured.NestedInt64(content(o), "status", "servingRevision"); serving != 1 {
			return fmt.Errorf("revision %d serves", serving)
		}
		if reason := testkit.ConditionReason(o, "KindReady"); reason != "BreakingChange" {
			return errors.New("KindReady is " + reason)
		}
		return nil
	})
	w.Delete(t, suite.ConfigMap, ns, "a")
	composed("one")
	w.Apply(t, boxDefinition(group, "four", ""))
	composed("four")
}

// lateWatches delays what the watches of definitions and of their revisions deliver while they are held.
type lateWatches struct {
	definitions, revisions hold
	next                   http.RoundTripper
}

// hold is what holds a watch, from the time that it is on until it ends.
type hold struct {
	on    atomic.Bool
	ended chan struct{}
	once  sync.Once
}

func (h *hold) end() { h.once.Do(func() { close(h.ended) }) }

func (l *lateWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	switch path, isWatch := r.URL.Path, r.URL.Query().Has("watch"); {
	case isWatch && strings.HasSuffix(path, "/resourcegraphdefinitions"):
		answer.Body = lateBody{answer.Body, &l.definitions}
	case isWatch && strings.HasSuffix(path, "/graphrevisions"):
		answer.Body = lateBody{answer.Body, &l.revisions}
	case l.revisions.on.Load() && testkit.IsWrite(r) && strings.Contains(path, "/graphrevisions/"):
		l.revisions.end()
	}
	return answer, err
}

type lateBody struct {
	io.ReadCloser
	hold *hold
}

func (b lateBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.hold.on.Load() {
		<-b.hold.ended
	}
	return n, err
}

// TestRevisionsOfADefinitionThatOrphansStay lets the controllers observe the deletion of a definition when the garbage
// collector has already removed the finalizer that requests to orphan, and the revisions later still.
func TestRevisionsOfADefinitionThatOrphansStay(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	late, group := &lateWatches{definitions: hold{ended: make(chan struct{})}, revisions: hold{ended: make(chan struct{})}}, testkit.Group(t)
	delayed := rest.CopyConfig(config)
	delayed.Wrap(func(next http.RoundTripper) http.RoundTripper { late.next = next; return late })
	defer steps.Run(t, delayed)()
	defer late.revisions.end()
	defer late.definitions.end()
	w.Apply(t, boxDefinition(group, "one", ""))
	w.AwaitReady(t, suite.RGD, "", group)
	w.AwaitReady(t, definition.RevisionKind, "", group+"-r00001")

	late.definitions.on.Store(true)
	late.revisions.on.Store(true)
	w.DeleteWith(t, suite.RGD, "", group, metav1.DeletePropagationOrphan)
	w.Await(t, suite.RGD, "", group, func(o *unstructured.Unstructured) error {
		if slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents) {
			return errors.New("the garbage collector has not been here")
		}
		return nil
	})
	late.definitions.end()
	w.AwaitGone(t, suite.RGD, "", group)
	if o := w.Get(t, definition.RevisionKind, "", group+"-r00001"); o == nil || o.GetDeletionTimestamp() != nil {
		t.Error("the revision is deleted")
	}
}

// exerciseRevisions creates and changes a definition, and checks its revisions.
func exerciseRevisions(t *testing.T, w *testkit.Cluster, group, ns string) {
	t.Helper()
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	rgd := schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}
	const quick = "rollout: {waves: [{percent: 50}]}"
	w.Apply(t, boxDefinition(group, "one", quick))
	w.AwaitReady(t, rgd, "", group)
	for _, name := range []string{"a", "b"} {
		w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: %s, namespace: %s}\n", group, name, ns))
		w.AwaitReady(t, box, ns, name)
	}
	w.Apply(t, boxDefinition(group, "two", quick))
	w.Await(t, rgd, "", group, func(o *unstructured.Unstructured) error {
		serving, _, _ := unstructured.NestedInt64(o.Object, "status", "servingRevision")
		issued, _, _ := unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision")
		if serving != 2 || issued != 2 {
			return fmt.Errorf("revision %d of %d serves", serving, issued)
		}
		return testkit.IsReady(o)
	})
	for _, name := range []string{"a", "b"} {
		w.Await(t, box, ns, name, func(o *unstructured.Unstructured) error {
			if word, _, _ := unstructured.NestedString(o.Object, "status", "edition"); word != "two" {
				return errors.New("is edition " + word)
			}
			return testkit.IsReady(o)
		})
	}
	for _, revision := range []string{"-r00001", "-r00002"} {
		w.AwaitReady(t, definition.RevisionKind, "", group+revision)
	}
}

// TestARevisionServesAfterARestartDespiteAChangedKind changes the type of a field that a
// definition reads from a kind that it composes.
func TestARevisionServesAfterARestartDespiteAChangedKind(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	outer := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Outer"}
	inner := func(kind string) string {
		return suite.CRDText(group, "v1", "Inner", "{type: object, properties: {spec: {type: object, properties: {a: {type: string}}}, status: {type: object, properties: {size: {type: "+kind+"}}}}}")
	}
	put := func(a string) {
		t.Helper()
		w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Outer\nmetadata: {name: x, namespace: %s}\nspec: {a: %s}\n", group, ns, a))
		w.Await(t, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Inner"}, ns, "x", func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedString(content(o), "spec", "a"); got != a {
				return fmt.Errorf("a is %q", got)
			}
			return nil
		})
	}
	stop := steps.Run(t, config)
	w.Apply(t, inner("string"))
	w.Apply(t, fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %[1]s}
spec:
  schema: {apiVersion: v1alpha1, kind: Outer, group: %[1]s, spec: {a: string}, status: {size: "${inner.status.size}"}}
  resources:
    - id: inner
      template: {apiVersion: %[1]s/v1, kind: Inner, metadata: {name: "${schema.metadata.name}"}, spec: {a: "${schema.spec.a}"}}
`, group))
	w.AwaitReady(t, suite.RGD, "", group)
	put("one")
	w.Apply(t, inner("integer"))
	w.Await(t, suite.RGD, "", group, func(o *unstructured.Unstructured) error {
		if reason := testkit.ConditionReason(o, "KindReady"); reason != "BreakingChange" {
			return errors.New("KindReady is " + reason)
		}
		return nil
	})
	put("two")
	stop()
	stop = steps.Run(t, config)
	defer func() { stop() }()
	put("three")
	w.Delete(t, outer, ns, "x")
	w.AwaitGone(t, outer, ns, "x")
	w.Delete(t, suite.RGD, "", group)
	w.AwaitGone(t, suite.RGD, "", group)
}

// content is what an object holds; nothing for none.
func content(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	return o.Object
}
