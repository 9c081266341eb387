package crash

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// TestChildrenOfLostCreateResponsesAreDeleted loses the answer to a creation, and the
// event of it for a while, and has the instance deleted meanwhile. Nothing refers to the
// instance as its owner.
func TestChildrenOfLostCreateResponsesAreDeleted(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	line := &flakyTransport{name: "/configmaps/x", happened: make(chan struct{})}
	broken := rest.CopyConfig(config)
	broken.Wrap(func(next http.RoundTripper) http.RoundTripper { line.next = next; return line })
	stop := steps.Run(t, broken)
	defer stop()
	defer line.reconnect()
	rgd, alone := suite.RGD, steps.Kind("Alone")
	alone.Group = group
	w.Apply(t, strings.ReplaceAll(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $GROUP}
spec:
  ownerReferences: None
  schema: {apiVersion: v1alpha1, kind: Alone, group: $GROUP}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}
`, "$GROUP", group))
	w.AwaitReady(t, rgd, "", group)
	put := func(name string) {
		w.Apply(t, "apiVersion: "+group+"/v1alpha1\nkind: Alone\nmetadata: {name: "+name+", namespace: "+ns+"}\n")
	}
	put("warm")
	w.AwaitReady(t, alone, ns, "warm") // the kind is watched
	line.disconnect()
	put("x")
	<-line.happened
	w.Delete(t, alone, ns, "x")
	w.AwaitGone(t, alone, ns, "x")
	if left := w.Get(t, suite.ConfigMap, ns, "x"); left != nil {
		t.Errorf("left behind: %s", testkit.JSON(left))
	}
}

// flakyTransport loses the answer to the first write of an object and all further writes of it, and
// holds back the events of its kind until the object is deleted.
type flakyTransport struct {
	next     http.RoundTripper
	name     string
	happened chan struct{}

	mu     sync.Mutex
	broken chan struct{} // closed when it works again; nil while it does
	lost   bool
}

func (l *flakyTransport) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = make(chan struct{})
}

func (l *flakyTransport) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		close(l.broken)
		l.broken = nil
	}
}

// wait waits until events are delivered again.
func (l *flakyTransport) wait() {
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if broken != nil {
		<-broken
	}
}

// loses reports whether the answer to a write is lost, and whether it was before.
func (l *flakyTransport) loses(r *http.Request) (loses, before bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil || r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, l.name) {
		return false, false
	}
	before, l.lost = l.lost, true
	return true, before
}

func (l *flakyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	loses, before := l.loses(r)
	if before {
		return nil, errLost
	}
	answer, err := l.next.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case loses:
		_ = answer.Body.Close()
		close(l.happened)
		return nil, errLost
	case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, l.name):
		l.reconnect()
	case r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/configmaps"):
		answer.Body = delayedBody{answer.Body, l}
	}
	return answer, nil
}

var errLost = errors.New("the connection is lost")

// delayedBody is a stream of events that come through while the line works.
type delayedBody struct {
	io.ReadCloser
	line *flakyTransport
}

func (h delayedBody) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	h.line.wait()
	return n, err
}
