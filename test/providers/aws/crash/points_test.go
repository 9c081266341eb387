package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/naming"
)

// TestSweepControllersCrashAtEachKindOfWrite creates, changes and deletes all members while the controllers crash before,
// and then after, each write of each type that differs in more than values from those before.
func TestSweepControllersCrashAtEachKindOfWrite(t *testing.T) {
	p := newPlane(t)
	points := newPoints(t)
	out := round{plane: p, name: "crashes at each kind of write", crashes: points.process}.run(t)
	before, after := points.count()
	for _, m := range members {
		// The least are the finalizer, the Binding, an operation and its outcome for each verb, and the statuses.
		if kind := kindOf(t, m.typ).Kind; after[kind] < 12 {
			t.Errorf("%s: there were crashes after %d kinds of writes only:\n%s", m.typ, after[kind], points.of(kind))
		}
	}
	testkit.Report(t, "aws: %d processes crash before %d and after %d kinds of writes of %d types: %v", out.crashes, sum(before), sum(after), len(members), after)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// point is a kind of writes about the objects of a kind.
type point struct{ kind, write string }

// points decides at which writes processes crash.
type points struct {
	mu sync.Mutex
	// visits is how often a write was met: the first one crashes before it, the second one after it.
	visits map[point]int
	// owners are the kinds of managed resources by the names of their Bindings.
	owners map[string]string
	// kinds are the kinds of the members by their plurals.
	kinds map[string]string
}

func newPoints(t *testing.T) *points {
	t.Helper()
	p := &points{visits: map[point]int{}, owners: map[string]string{}, kinds: map[string]string{}}
	for _, m := range members {
		kind, err := naming.Of(m.typ, false)
		if err != nil {
			t.Fatal(err)
		}
		p.kinds[kind.Plural] = kind.Kind
	}
	return p
}

const (
	beforeWrite = 1
	afterWrite  = 2
)

func (p *points) visit(r *http.Request) int {
	body := bodyOf(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.pointOf(r, body)
	p.visits[at]++
	return p.visits[at]
}

// count returns how many points of each kind of objects had a crash before and after them.
func (p *points) count() (before, after map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, after = map[string]int{}, map[string]int{}
	for at, n := range p.visits {
		before[at.kind]++
		if n >= afterWrite {
			after[at.kind]++
		}
	}
	return before, after
}

// of lists the points of a kind.
func (p *points) of(kind string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for at, n := range p.visits {
		if at.kind == kind {
			out = append(out, fmt.Sprintf("%s (%d)", at.write, n))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// pointOf describes a write by its place and by the fields that say how far an object is.
func (p *points) pointOf(r *http.Request, body map[string]any) point {
	o := unstructured.Unstructured{Object: body}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if at := slices.Index(path, "bindings"); at >= 0 {
		name := o.GetName()
		if name == "" && at+1 < len(path) {
			name = path[at+1]
		}
		if owner, _, _ := unstructured.NestedString(body, "spec", "owner", "kind"); owner != "" {
			p.owners[name] = owner
		}
		return point{p.owners[name], r.Method + " Binding " + bindingShape(o)}
	}
	of, subresource := resourceOf(path)
	kind, write := p.kinds[of], r.Method+" "+of+"/"+subresource
	if subresource == "status" {
		return point{kind, write + " " + conditionShape(body)}
	}
	_, hasSpec := body["spec"]
	return point{kind, fmt.Sprintf("%s finalizers %v, annotations %v, spec %t", write, o.GetFinalizers(), slices.Sorted(maps.Keys(o.GetAnnotations())), hasSpec)}
}

// resourceOf is the resource of a path, and its subresource.
func resourceOf(path []string) (resource, subresource string) {
	path = path[min(len(path), 3):] // apis, the group and the version
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	switch len(path) {
	case 0:
		return "", ""
	case 1, 2:
		return path[0], ""
	}
	return path[0], path[2]
}

func bindingShape(o unstructured.Unstructured) string {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	open, _, _ := unstructured.NestedMap(spec, "operation")
	ended, _, _ := unstructured.NestedString(spec, "ended", "verb")
	return fmt.Sprintf("%v %v %v %v ended %s, reservation %t", spec["phase"], slices.Sorted(maps.Keys(spec)), open["verb"], slices.Sorted(maps.Keys(open)), ended, o.GetLabels()["espalier.dev/reservation"] != "")
}

func conditionShape(body map[string]any) string {
	conditions, _, _ := unstructured.NestedSlice(body, "status", "conditions")
	var out []string
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			out = append(out, fmt.Sprintf("%v=%v %v", c["type"], c["status"], c["reason"]))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// bodyOf reads an object from the body of a request, and leaves the body as it was.
func bodyOf(r *http.Request) map[string]any {
	out := map[string]any{}
	if r.Body == nil {
		return out
	}
	raw, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if err == nil {
		_ = json.Unmarshal(raw, &out) // the body of a deletion has options, and no object
	}
	return out
}

// process returns the crash of the next process.
func (p *points) process() crash { return &process{points: p, crashed: make(chan struct{})} }

// process crashes at its next points. Each write at a point is in flight until the process crashes, so that objects of
// several types are at points of theirs when it does.
type process struct {
	points  *points
	writes  atomic.Int64
	crashed chan struct{}
	mu      sync.Mutex
	dies    *time.Timer
}

// inFlight is how long a process still runs after the last of its writes at points has begun. It decides how many
// writes are in flight in one crash, and not what they lead to.
const inFlight = 250 * time.Millisecond

func (c *process) Crashed() <-chan struct{} { return c.crashed }
func (c *process) Writes() int              { return int(c.writes.Load()) }

func (c *process) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return stopping{c, next} })
	return wrapped
}

type stopping struct {
	*process
	next http.RoundTripper
}

func (c stopping) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-c.crashed:
		return nil, testkit.ErrCrashed
	default:
	}
	if !testkit.IsWrite(r) {
		return c.next.RoundTrip(r)
	}
	c.writes.Add(1)
	switch c.points.visit(r) {
	case beforeWrite:
	case afterWrite:
		if answer, err := c.next.RoundTrip(r); err == nil {
			_ = answer.Body.Close()
		}
	default:
		return c.next.RoundTrip(r)
	}
	c.crashSoon()
	<-c.crashed
	return nil, testkit.ErrCrashed
}

func (c *process) crashSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dies == nil {
		c.dies = time.AfterFunc(inFlight, func() { close(c.crashed) })
		return
	}
	if c.dies.Stop() {
		c.dies.Reset(inFlight)
	}
}
