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

// after lets some time go by in which nothing is to happen.
func after(d time.Duration) { <-time.NewTimer(d).C }

// putHold makes the controllers rest.
func (p plane) putHold(t *testing.T, name string) {
	t.Helper()
	h := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"reason": "a test"}}}
	h.SetGroupVersionKind(hold)
	h.SetName(name)
	if _, err := p.Of(t, hold, "").Create(t.Context(), h, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (p plane) resting(t *testing.T, name string) {
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
	sky := open()
	p := stocked(t, sky)
	p.putHold(t, "rest")
	// Definitions don't rest: they look up the kinds that they compose, and ask for rights.
	counter := testkit.Counter{Counts: func(r *http.Request) bool {
		return !strings.HasPrefix(r.URL.Path, "/openapi") && !strings.Contains(r.URL.Path, "/selfsubject")
	}}
	held := p
	held.config = counter.Wrap(p.config)
	stop := held.run(t, sky)
	defer stop()
	p.resting(t, "rest")
	entries := len(sky.Journal().Select())
	p.Delete(t, bucket, p.ns, p.alone())
	p.put(t, "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: new-$NS, namespace: $NS}\nspec: {forProvider: {}}\n")
	p.put(t, "apiVersion: $GROUP/v1alpha1\nkind: Store\nmetadata: {name: second-$NS, namespace: $NS}\n")
	before := counter.Now()
	after(1500 * time.Millisecond)
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
	p.AwaitGone(t, bucket, p.ns, p.alone())
	p.AwaitReady(t, bucket, p.ns, "new-"+p.ns)
	p.AwaitReady(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.Delete(t, bucket, p.ns, "new-"+p.ns)
	p.Delete(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.AwaitGone(t, bucket, p.ns, "new-"+p.ns)
	p.AwaitGone(t, p.kind("Store"), p.ns, "second-"+p.ns)
	p.clear(t, sky)
}

// deaf is a connection on which watches of Holds tell nothing new between the closing
// of mute and that of hear.
type deaf struct {
	next       http.RoundTripper
	mute, hear chan struct{}
}

func (d deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/holds") && r.URL.Query().Get("watch") != "" {
		answer.Body = silence{answer.Body, d, r.Context().Done()}
	}
	return answer, err
}

type silence struct {
	io.ReadCloser
	of   deaf
	done <-chan struct{}
}

func (s silence) Read(p []byte) (int, error) {
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
	sky := open()
	p := stocked(t, sky)
	raw := p.export(t, archive.Selection{})
	there, made := serials(sky), calls(sky, cloud.VerbCreate)
	stop := p.run(t, sky)
	p.vanish(t)
	stop()
	mute, hear := make(chan struct{}), make(chan struct{})
	config := rest.CopyConfig(p.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return deaf{next, mute, hear} })
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
	after(1500 * time.Millisecond)
	if n := len(p.bindings(t)); n > 0 {
		t.Errorf("%d Bindings were made beside the import", n)
	}
	if err := p.importer(t, p.config, raw, "second").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.ready(t)
	if diff := cmp.Diff(there, serials(sky)); diff != "" || calls(sky, cloud.VerbCreate) != made {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	close(hear)
	p.clear(t, sky)
}
