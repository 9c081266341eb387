package sharding

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// failure happens to a replica at one of its writes.
type failure struct {
	n    int // the write, counted from 1
	mode mode

	mu   sync.Mutex
	seen int
	// begun is closed at the failure, and over when the replica works again.
	begun, over chan struct{}
}

// mode is what happens.
type mode string

const (
	// killed: the write takes effect, its answer is lost, and no request follows.
	killed mode = "killed"
	// suspended: requests and answers are delayed until the replica is resumed, after others have taken
	// over, as SIGSTOP and SIGCONT do.
	suspended mode = "suspended"
	// partitioned: requests fail until the network works again.
	partitioned mode = "partitioned"
)

func newFailure(n int, m mode) *failure {
	return &failure{n: n, mode: m, begun: make(chan struct{}), over: make(chan struct{})}
}

func (f *failure) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return failing{f, next} })
	return config
}

type failing struct {
	*failure
	next http.RoundTripper
}

var errUnreachable = errors.New("the API server cannot be reached")

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := f.pass(); err != nil {
		return nil, err
	}
	answer, err := f.next.RoundTrip(r)
	if testkit.IsWrite(r) {
		f.count()
	}
	if failed := f.pass(); failed != nil {
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, failed
	}
	return answer, err
}

func (f *failure) count() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen++; f.seen == f.n {
		close(f.begun)
	}
}

// pass waits while the replica is suspended, and fails while it cannot reach the API server.
func (f *failure) pass() error {
	select {
	case <-f.begun:
	default:
		return nil
	}
	if f.mode == suspended {
		<-f.over
		return nil
	}
	select {
	case <-f.over:
		return nil
	default:
		return errUnreachable
	}
}

// resume ends the failure.
func (f *failure) resume() { close(f.over) }

// TestSweepAReplicaFails has two and three replicas, one of which fails after each of its writes: it is killed, suspended
// until others have taken over, or partitioned from the API server for as long. The instances become ready, change
// and go as without failures, each bucket is created once, and nothing is left.
func TestSweepAReplicaFails(t *testing.T) {
	failures := 0
	for _, replicas := range []int{2, 3} {
		w := newWorld(t, 0)
		var stable []*replica
		for n := range replicas - 1 {
			stable = append(stable, w.start(t, fmt.Sprintf("stable %d", n+1)))
		}
		for _, r := range stable {
			r.awaitReady(t)
		}
		w.Apply(t, suite.Graph("Thing", "spec: {value: string}, status: {value: '${second.data.value}'}", graph+`
    - id: bucket
      template: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, metadata: {name: "b-${schema.metadata.namespace}"}, spec: {forProvider: {versioning: true}}}
`))
		w.AwaitDefinitions(t, "thing")
		for _, m := range []mode{killed, suspended, partitioned} {
			t.Run(fmt.Sprintf("one of %d is %s", replicas, m), func(t *testing.T) {
				step := testkit.Size(21, 1)
				for n := 1; !t.Failed() && w.failAt(t, n, m); n += step {
					failures++
				}
			})
		}
		for _, r := range stable {
			r.stop()
		}
	}
	if failures == 0 {
		t.Error("nothing has failed")
	}
	testkit.Report(t, "sharding: a replica has failed %d times", failures)
}

// failAt lets a replica join that fails at its n-th write, and exercises instances. It reports whether there was a
// failure.
func (w *world) failAt(t *testing.T, n int, m mode) (failed bool) {
	t.Helper()
	name := fmt.Sprintf("%s after write %d", m, n)
	w.namespaces = nil
	for range 8 {
		w.namespaces = append(w.namespaces, testkit.Namespace(t, w.Config))
	}
	before := len(w.journal.all())
	f := newFailure(n, m)
	failing := start(t, name, w.Config, w.NS, w.cloud, w.journal, f.wrap)
	failing.awaitReady(t)
	end := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() {
		select {
		case <-f.begun:
		case <-end:
			return
		}
		if m == killed {
			failing.stop()
			return
		}
		select {
		case <-time.After(2 * leaseDuration): // its Lease has expired by then
		case <-end:
		}
		f.resume()
	})
	w.createInstances(t, "Thing", "one")
	w.awaitValues(t, "one")
	w.createInstances(t, "Thing", "two")
	w.awaitValues(t, "two")
	for _, ns := range w.namespaces {
		w.Delete(t, w.Kind("Thing"), ns, "x")
	}
	for _, ns := range w.namespaces {
		w.AwaitGone(t, w.Kind("Thing"), ns, "x")
		w.AwaitList(t, espalier.GroupVersion.WithKind(espalier.BindingKind), "", "", func(all map[string]*unstructured.Unstructured) error {
			for _, b := range all {
				if owner, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "namespace"); owner == ns {
					return fmt.Errorf("binding %s is left", b.GetName())
				}
			}
			return nil
		})
		created := 0
		for _, e := range w.cloud.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect) {
			for _, tag := range e.Tags {
				if strings.Contains(tag, ns) {
					created++
					break
				}
			}
		}
		if created != 1 {
			t.Errorf("%s: %d buckets were created in namespace %s", name, created, ns)
		}
	}
	if left := w.cloud.Admin().Resources(); len(left) > 0 {
		t.Errorf("%s: buckets are left: %+v", name, left)
	}
	close(end)
	ending.Wait()
	failing.stop()
	for _, late := range late(w.journal.all()[before:]) {
		if m != suspended || strings.Contains(late.path, "/bindings/") {
			t.Errorf("%s: written after a later owner: %s", name, late)
		}
	}
	select {
	case <-f.begun:
		return true
	default:
		return false
	}
}
