package watches

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// lateWatch holds back what the watches of a path deliver, from the time that it is on until a request ends that.
type lateWatch struct {
	path string
	ends func(*http.Request) bool
	next http.RoundTripper
	on   atomic.Bool
	over chan struct{}
	once sync.Once
}

func (l *lateWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	watches := r.URL.Query().Has("watch")
	switch {
	case err != nil:
	case watches && strings.HasSuffix(r.URL.Path, l.path):
		answer.Body = lateBody{answer.Body, l}
	case !watches && l.on.Load() && l.ends(r):
		l.end()
	}
	return answer, err
}

func (l *lateWatch) end() { l.once.Do(func() { close(l.over) }) }

type lateBody struct {
	io.ReadCloser
	late *lateWatch
}

func (b lateBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.late.on.Load() {
		<-b.late.over
	}
	return n, err
}

// TestAnInstanceThatIsNotInTheCacheKeepsItsDefinition deletes a definition right after an instance was created, which
// the watch of the instances has not delivered yet.
func TestAnInstanceThatIsNotInTheCacheKeepsItsDefinition(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	crd := "boxes." + group
	late := &lateWatch{path: "/apis/" + group + "/v1alpha1/boxes", over: make(chan struct{})}
	late.ends = func(r *http.Request) bool {
		return r.URL.Path == late.path || r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/"+crd)
	}
	defer late.end()
	behind := rest.CopyConfig(config)
	behind.Wrap(func(next http.RoundTripper) http.RoundTripper { late.next = next; return late })
	run(t, behind)
	w.Apply(t, fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %s}
spec:
  schema: {apiVersion: v1alpha1, kind: Box, group: %[1]s}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}
`, group))
	instance := fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: a, namespace: %s}\n", group, ns)
	w.Apply(t, instance)
	w.AwaitReady(t, box, ns, "a") // the watch has delivered what exists
	w.Delete(t, box, ns, "a")
	w.AwaitGone(t, box, ns, "a")

	late.on.Store(true)
	w.Apply(t, instance)
	created := w.Get(t, box, ns, "a")
	w.Delete(t, suite.RGD, "", group)
	w.Await(t, suite.RGD, "", group, func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionReason(o, "Ready") != "InstancesRemain" {
			return errors.New("it does not wait for the instance")
		}
		return nil
	})
	if o := w.Get(t, box, ns, "a"); o == nil || o.GetUID() != created.GetUID() || o.GetDeletionTimestamp() != nil {
		t.Fatalf("the instance was deleted with its definition: %v", o)
	}
	w.Delete(t, box, ns, "a")
	w.AwaitGone(t, suite.RGD, "", group)
	w.AwaitGone(t, suite.CRD, "", crd)
}

// TestARevisionIsKeptForAnInstanceThatIsLate has an instance request a revision right before it would be deleted as
// surplus; the watch of the instances has not delivered the request yet.
func TestARevisionIsKeptForAnInstanceThatIsLate(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	first := group + "-r00001"
	late := &lateWatch{path: "/apis/" + group + "/v1alpha1/boxes", over: make(chan struct{})}
	late.ends = func(r *http.Request) bool {
		return r.URL.Path == late.path || r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/"+first)
	}
	defer late.end()
	behind := rest.CopyConfig(config)
	behind.Wrap(func(next http.RoundTripper) http.RoundTripper { late.next = next; return late })
	run(t, behind)
	define := func(edition string) {
		w.Apply(t, fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %s}
spec:
  revisionHistoryLimit: 1
  instanceOverrides: {revision: Allow}
  schema: {apiVersion: v1alpha1, kind: Box, group: %[1]s, status: {edition: "${content.data.edition}"}}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {edition: %s}}
`, group, edition))
	}
	define("one")
	instance := "apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: a, namespace: %s, annotations: {%s}}\n"
	w.Apply(t, fmt.Sprintf(instance, group, ns, ""))
	w.AwaitReady(t, box, ns, "a") // the watch has delivered what exists

	late.on.Store(true)
	w.Apply(t, fmt.Sprintf(instance, group, ns, v1alpha1.RevisionAnnotation+`: "1"`))
	define("two")
	select {
	case <-late.over:
	case <-time.After(30 * time.Second):
		t.Fatal("the definition neither lists the instances nor deletes the revision")
	}
	if o := w.Get(t, rev.GroupVersion.WithKind(rev.GraphRevisionKind), "", first); o == nil || o.GetDeletionTimestamp() != nil {
		t.Fatalf("the requested revision was deleted: %v", o)
	}
	w.Await(t, box, ns, "a", suite.All(suite.IsPresent, suite.HasField("one", "status", "edition")))
	w.Delete(t, box, ns, "a")
	w.AwaitGone(t, box, ns, "a")
	w.Delete(t, suite.RGD, "", group)
	w.AwaitGone(t, suite.RGD, "", group)
	w.AwaitGone(t, suite.CRD, "", "boxes."+group)
}

// lostAnswers sends the writes of an object, and loses their answers.
type lostAnswers struct {
	path string
	next http.RoundTripper
}

func (l *lostAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPatch && r.URL.Path == l.path {
		_ = answer.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return answer, err
}

// TestAKindThatIsNotInTheCacheEndsWithItsDefinition deletes a definition whose CustomResourceDefinition exists, as
// another replica has written it, say, and which the watch has not delivered yet.
func TestAKindThatIsNotInTheCacheEndsWithItsDefinition(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	crd := "boxes." + group
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	var deleted atomic.Bool
	late := &lateWatch{path: crds, over: make(chan struct{})}
	late.ends = func(r *http.Request) bool { return deleted.Load() && r.URL.Path == crds+"/"+crd }
	defer late.end()
	behind := rest.CopyConfig(config)
	behind.Wrap(func(next http.RoundTripper) http.RoundTripper {
		late.next = &lostAnswers{path: crds + "/" + crd, next: next}
		return late
	})
	run(t, behind)
	late.on.Store(true)
	w.Apply(t, fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %s}
spec:
  schema: {apiVersion: v1alpha1, kind: Box, group: %[1]s}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}
`, group))
	w.Await(t, suite.CRD, "", crd, suite.All(suite.IsPresent, suite.HasCondition("Established", "True", "")))
	w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: a, namespace: %s}\n", group, ns))

	deleted.Store(true)
	w.Delete(t, suite.RGD, "", group)
	w.Await(t, suite.RGD, "", group, func(o *unstructured.Unstructured) error {
		if o == nil {
			t.Fatal("it does not wait for the instance")
		}
		return suite.HasCondition("Ready", "False", "InstancesRemain")(o)
	})
	w.Delete(t, schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}, ns, "a")
	w.AwaitGone(t, suite.RGD, "", group)
	w.AwaitGone(t, suite.CRD, "", crd)
}
