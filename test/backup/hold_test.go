package backup

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// sleep waits for the time in which something must not happen.
func sleep(d time.Duration) { <-time.NewTimer(d).C }

// createHold suspends the controllers.
func (p plane) createHold(t *testing.T, name string) {
	t.Helper()
	h := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"reason": "a test"}}}
	h.SetGroupVersionKind(hold)
	h.SetName(name)
	if _, err := p.Resource(t, hold, "").Create(t.Context(), h, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitSuspended waits until the controllers report that they are suspended.
func (p plane) awaitSuspended(t *testing.T, name string) {
	t.Helper()
	p.Await(t, hold, "", name, func(o *unstructured.Unstructured) error {
		if since, _, _ := unstructured.NestedString(o.Object, "status", "restingSince"); since == "" {
			return errors.New("the controllers do not report that they are suspended")
		}
		return nil
	})
}

// isDiscovery matches the paths of requests for the kinds of an API group version.
var isDiscovery = regexp.MustCompile(`^/(api|apis)(/[^/]+)?$|^/apis/[^/]+/[^/]+$`)

// TestControllersStartSuspended changes, deletes and creates objects while a Hold exists, with
// controllers that were started after it.
func TestControllersStartSuspended(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	p.createHold(t, "suspend")
	// Definitions are not suspended: their controller discovers kinds, reads schemas and reviews permissions.
	counter := testkit.Counter{Filter: func(r *http.Request) bool {
		return !isDiscovery.MatchString(r.URL.Path) && !strings.HasPrefix(r.URL.Path, "/openapi") && !strings.Contains(r.URL.Path, "/selfsubject")
	}}
	held := p
	held.config = counter.Wrap(p.config)
	stop := held.run(t, fakeCloud)
	defer stop()
	p.awaitSuspended(t, "suspend")
	entries := len(fakeCloud.Journal().Select())
	p.Delete(t, bucket, p.ns, p.bucketName())
	p.apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: new-$NS, namespace: $NS}\nspec: {forProvider: {}}\n")
	p.apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Store\nmetadata: {name: second-$NS, namespace: $NS}\n")
	before := counter.Snapshot()
	sleep(1500 * time.Millisecond)
	if sent := counter.Since(before); sent.Total > 0 {
		t.Errorf("under a Hold the controllers sent %s", sent)
	}
	if n := len(fakeCloud.Journal().Select()) - entries; n > 0 {
		t.Errorf("under a Hold the cloud got %d calls", n)
	}
	if o := p.Get(t, bucket, p.ns, "new-"+p.ns); len(o.GetFinalizers()) > 0 {
		t.Error("under a Hold a bucket got a finalizer")
	}
	p.Delete(t, hold, "", "suspend")
	p.AwaitGone(t, bucket, p.ns, p.bucketName())
	p.AwaitReady(t, bucket, p.ns, "new-"+p.ns)
	p.AwaitReady(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.Delete(t, bucket, p.ns, "new-"+p.ns)
	p.Delete(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.AwaitGone(t, bucket, p.ns, "new-"+p.ns)
	p.AwaitGone(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.deleteStock(t, fakeCloud)
}

// delayedHoldWatch is a connection on which watches of Holds get no event between the closing of
// pause and that of resume.
type delayedHoldWatch struct {
	next          http.RoundTripper
	pause, resume chan struct{}
}

func (d delayedHoldWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/holds") && r.URL.Query().Get("watch") != "" {
		answer.Body = delayedBody{answer.Body, d, r.Context().Done()}
	}
	return answer, err
}

type delayedBody struct {
	io.ReadCloser
	of   delayedHoldWatch
	done <-chan struct{}
}

func (s delayedBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	select {
	case <-s.of.pause:
	default:
		return n, err
	}
	select {
	case <-s.of.resume:
	case <-s.done:
		return 0, io.EOF
	}
	return n, err
}

// TestControllersWithADelayedWatchAreSuspended imports while the controllers' watch of Holds is delayed:
// an import that crashes half-way has created managed resources without Bindings, and the controllers
// do not reconcile them until it is aborted and repeated.
func TestControllersWithADelayedWatchAreSuspended(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	raw := p.export(t, archive.Selection{})
	there, made := serials(fakeCloud), countEffects(fakeCloud, cloud.VerbCreate)
	stop := p.run(t, fakeCloud)
	p.loseStock(t)
	stop()
	pause, resume := make(chan struct{}), make(chan struct{})
	config := rest.CopyConfig(p.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return delayedHoldWatch{next, pause, resume} })
	delayed := p
	delayed.config = config
	stop = delayed.run(t, fakeCloud)
	defer stop()
	close(pause)
	// The writes are the Hold, revisions and definitions with their owner references, and a bucket.
	crash := testkit.NewCrash(11)
	crash.Log = func(what string) { t.Log(what) }
	if err := p.importer(t, crash.Wrap(p.config), raw, "first").Run(t.Context()); !errors.Is(err, testkit.ErrCrashed) {
		t.Fatal(err)
	}
	if n := len(p.list(t, bucket, p.ns)); n == 0 {
		t.Fatal("the import has created no bucket yet")
	}
	sleep(1500 * time.Millisecond)
	if n := len(p.bindings(t)); n > 0 {
		t.Errorf("the controllers created %d Bindings during the import", n)
	}
	p.abort(t, raw)
	if err := p.importer(t, p.config, raw, "third").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitStock(t)
	if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" || countEffects(fakeCloud, cloud.VerbCreate) != made {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	close(resume)
	p.deleteStock(t, fakeCloud)
}
