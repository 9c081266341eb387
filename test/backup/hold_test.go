package backup

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// sleep waits, for what must not happen.
func sleep(d time.Duration) { <-time.NewTimer(d).C }

// putHold suspends the controllers.
func (p plane) putHold(t *testing.T, name string) {
	t.Helper()
	h := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"reason": "a test"}}}
	h.SetGroupVersionKind(hold)
	h.SetName(name)
	if _, err := p.Resource(t, hold, "").Create(t.Context(), h, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (p plane) awaitSuspended(t *testing.T, name string) {
	t.Helper()
	p.Await(t, hold, "", name, func(o *unstructured.Unstructured) error {
		if since, _, _ := unstructured.NestedString(o.Object, "status", "restingSince"); since == "" {
			return errors.New("the controllers don't say that they rest")
		}
		return nil
	})
}

// TestControllersThatStartUnderAHoldRest changes, deletes and creates while there is a
// Hold, with controllers that were started since.
func TestControllersThatStartUnderAHoldRest(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	p.putHold(t, "rest")
	// Definitions do not rest: they look up the kinds that they compose, and ask for rights.
	counter := testkit.Counter{Filter: func(r *http.Request) bool {
		return !strings.HasPrefix(r.URL.Path, "/openapi") && !strings.Contains(r.URL.Path, "/selfsubject")
	}}
	held := p
	held.config = counter.Wrap(p.config)
	stop := held.run(t, sky)
	defer stop()
	p.awaitSuspended(t, "rest")
	entries := len(sky.Journal().Select())
	p.Delete(t, bucket, p.ns, p.bucketName())
	p.apply(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: new-$NS, namespace: $NS}\nspec: {forProvider: {}}\n")
	p.apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Store\nmetadata: {name: second-$NS, namespace: $NS}\n")
	before := counter.Snapshot()
	sleep(1500 * time.Millisecond)
	if asked := counter.Since(before); asked.Total > 0 {
		t.Errorf("under a Hold there were %s", asked)
	}
	if n := len(sky.Journal().Select()) - entries; n > 0 {
		t.Errorf("under a Hold the cloud was asked %d times", n)
	}
	if o := p.Get(t, bucket, p.ns, "new-"+p.ns); len(o.GetFinalizers()) > 0 {
		t.Error("a bucket was claimed")
	}
	p.Delete(t, hold, "", "rest")
	p.AwaitGone(t, bucket, p.ns, p.bucketName())
	p.AwaitReady(t, bucket, p.ns, "new-"+p.ns)
	p.AwaitReady(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.Delete(t, bucket, p.ns, "new-"+p.ns)
	p.Delete(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.AwaitGone(t, bucket, p.ns, "new-"+p.ns)
	p.AwaitGone(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.deleteStock(t, sky)
}

// delayedHoldWatch is a connection on which watches of Holds tell nothing new between the closing
// of mute and that of hear.
type delayedHoldWatch struct {
	next       http.RoundTripper
	mute, hear chan struct{}
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
	case <-s.of.mute:
	default:
		return n, err
	}
	select {
	case <-s.of.hear:
	case <-s.done:
		return 0, io.EOF
	}
	return n, err
}

// TestControllersThatHaveNotHeardOfTheHoldRest imports where the controllers' watch of
// Holds is slow: an import that dies half-way has made managed resources without
// Bindings, and they are left alone.
func TestControllersThatHaveNotHeardOfTheHoldRest(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	raw := p.export(t, archive.Selection{})
	there, made := serials(sky), countEffects(sky, cloud.VerbCreate)
	stop := p.run(t, sky)
	p.loseStock(t)
	stop()
	mute, hear := make(chan struct{}), make(chan struct{})
	config := rest.CopyConfig(p.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return delayedHoldWatch{next, mute, hear} })
	unheard := p
	unheard.config = config
	stop = unheard.run(t, sky)
	defer stop()
	close(mute)
	// The Hold, a revision of each of two definitions and these, with their owners, and so of a bucket.
	crash := testkit.NewCrash(11)
	crash.Log = func(what string) { t.Log(what) }
	if err := p.importer(t, crash.Wrap(p.config), raw, "first").Run(t.Context()); !errors.Is(err, testkit.ErrCrashed) {
		t.Fatal(err)
	}
	if n := len(p.list(t, bucket, p.ns)); n == 0 {
		t.Fatal("there is no bucket yet")
	}
	sleep(1500 * time.Millisecond)
	if n := len(p.bindings(t)); n > 0 {
		t.Errorf("%d Bindings were made beside the import", n)
	}
	if err := p.importer(t, p.config, raw, "second").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitStock(t)
	if diff := cmp.Diff(there, serials(sky)); diff != "" || countEffects(sky, cloud.VerbCreate) != made {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	close(hear)
	p.deleteStock(t, sky)
}
