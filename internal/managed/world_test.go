package managed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

const (
	database = `
apiVersion: cloud.example.org/v1
kind: Database
metadata: {name: db, namespace: prod, uid: db-1, generation: 1}
spec:
  forProvider: {size: small}`
	network = `
apiVersion: cloud.example.org/v1
kind: Network
metadata: {name: net, namespace: prod, uid: net-1, labels: {tier: data}, annotations: {crossplane.io/external-name: net-7}}`
)

var (
	databaseKind = schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Database"}
	networkKind  = schema.GroupVersionKind{Group: "cloud.example.org", Version: "v1", Kind: "Network"}
	databaseKey  = object.Key{Group: "cloud.example.org", Kind: "Database", Namespace: "prod", Name: "db"}
	networkKey   = object.Key{Group: "cloud.example.org", Kind: "Network", Namespace: "prod", Name: "net"}
	secretKey    = object.Key{Kind: "Secret", Namespace: "prod", Name: "conn"}
	start        = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
)

// bindingKey is where the Binding of the database is whose name is the caller's.
var bindingKey = object.Key{Group: BindingKind.Group, Kind: BindingKind.Kind, Name: execute.BindingName(&binding.BindingSpec{
	Key: binding.BindingKey{Scope: "eu", Type: "database", Name: "db"},
})}

// world is a cluster, an external API, and the controller of databases between them. The
// calls to the external API are among the cluster's requests, as "call verb ref".
type world struct {
	*fakekube.Cluster
	cloud    *cloud
	r        *Reconciler
	now      time.Time
	enqueued []object.Key
	// usages and unreadable are what Subscribe returns; subscribed: there is a subscriber.
	usages     []usage.Usage
	unreadable *plan.Unreadable
	subscribed bool
}

func newWorld(objects ...string) *world {
	w := &world{Cluster: fakekube.New(objects...), now: start}
	w.Kinds[BindingKind.GroupKind()] = fakekube.Kind{ClusterScoped: true}
	w.cloud = &cloud{world: w, things: map[external.Ref]*thing{}}
	client := w.Client()
	n := 0
	w.r = &Reconciler{
		Port: port.Kind{
			GVK: databaseKind, Caps: func() external.Caps { return w.cloud.caps },
			References: []port.Reference{{Field: "network", To: networkKind}, {Field: "peers", Ref: "peerRefs", List: true, To: networkKind}},
			Connect: func(_ context.Context, _ port.Objects, o *unstructured.Unstructured) (port.Session, error) {
				if w.cloud.connectErr == nil {
					w.cloud.open++
				}
				return &session{w.cloud, o}, w.cloud.connectErr
			},
		},
		Bindings: client, Resources: client, Secrets: client, Cache: w, Events: w,
		Watch: func(s watch.Subscriber) Lease { return w.Begin(s) },
		Now:   func() time.Time { return w.now }, LeaderUntil: func() time.Time { return time.Time{} }, Leader: func() (string, int64) { return "", 0 },
		Random: func() string { n++; return fmt.Sprintf("random%d", n) }, Installation: "here", PollInterval: time.Minute,
		Enqueue: func(key object.Key) { w.enqueued = append(w.enqueued, key) },
	}
	return w
}

// Subscribe implements Usages.
func (w *world) Subscribe(_ object.Key, about []object.Key) (map[object.Key][]usage.Usage, *plan.Unreadable) {
	w.subscribed = true
	return map[object.Key][]usage.Usage{about[0]: w.usages}, w.unreadable
}

// usages are the Usages of a Reconciler: world has another method Forget.
type usages struct{ *world }

// Forget implements Usages.
func (u usages) Forget(object.Key) { u.subscribed = false }

// reconcile is one reconcile of the database; it returns what was written and called.
func (w *world) reconcile(t *testing.T) (reconcile.Result, []string) {
	t.Helper()
	w.Writes()
	w.r.Usages = usages{w}
	out := w.r.Reconcile(context.Background(), databaseKey)
	if !out.IsFinal() {
		t.Error("the reconcile ended without an outcome")
	}
	if w.cloud.connectErr == nil && w.cloud.open != 0 {
		t.Errorf("%d clients stay connected", w.cloud.open)
	}
	writes := w.Writes()
	for i := range writes {
		writes[i] = strings.ReplaceAll(writes[i], bindingKey.Name, "k-db")
	}
	return out, writes
}

// settle reconciles until there is nothing to do before the next poll.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for range 20 {
		out, writes := w.reconcile(t)
		w.now = w.now.Add(cmp.Or(out.RequeueAfter, time.Second))
		if out.Err == nil && len(writes) == 0 {
			return
		}
	}
	t.Fatalf("it does not settle; Synced is %s", w.condition(resource.Synced))
}

func (w *world) condition(kind string) string {
	o := w.Object(databaseKey)
	if o == nil {
		return "gone"
	}
	c, _ := condition.Read(o).Get(kind)
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func (w *world) spec(t *testing.T) *binding.BindingSpec {
	t.Helper()
	o := w.Object(bindingKey)
	if o == nil {
		return nil
	}
	spec, err := readSpec(o)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// cloud is an external API of databases.
type cloud struct {
	world *world
	caps  external.Caps
	// slow is how many polls an operation takes.
	slow   int
	things map[external.Ref]*thing
	// connectErr, observeErr and rejection are the errors of Connect, of Observe and Find, and of
	// calls that change something.
	connectErr, observeErr error
	rejection              *external.OpError
	// during is called at the end of each call that changes something, and in each poll. Its error
	// replaces the response.
	during func(verb external.Verb) error
	// unreachable is the error of calls that do not arrive.
	unreachable error
	// created counts the created resources.
	created int
	// identifyErr is the error of Identify, and open the number of connected clients.
	identifyErr error
	open        int
}

type thing struct {
	mark    external.Mark
	token   string
	request string
	polls   int
	leaving bool
}

// session is a client that is connected for one database.
type session struct {
	*cloud
	o *unstructured.Unstructured
}

func (s *session) call(verb string, what any) {
	s.world.Requests = append(s.world.Requests, fmt.Sprintf("call %s %v", verb, what))
}

func (s *session) Identify() (external.Key, error) {
	k := external.Key{Scope: "eu", Type: "database"}
	if s.caps.Naming == external.CallerAssigned {
		k.Name = cmp.Or(s.o.GetAnnotations()[resource.ExternalNameAnnotation], s.o.GetName())
	}
	return k, s.identifyErr
}

func (s *session) Observe(_ context.Context, ref external.Ref) (external.Observation, error) {
	t := s.things[ref]
	switch {
	case s.observeErr != nil:
		return external.Observation{}, s.observeErr
	case t == nil:
		return external.Observation{Presence: external.Absent}, nil
	}
	o := external.Observation{
		Presence: external.Present, Ref: ref, Mark: &t.mark, UpToDate: external.Yes, Ready: external.Yes,
		AtProvider: map[string]any{"request": t.request}, LateInit: map[string]any{"zone": "a"},
		Connection: map[string][]byte{"host": []byte(ref)},
	}
	if want, _ := s.Prepare("", o); string(want) != t.request {
		o.UpToDate, o.Diff = external.No, "size"
	}
	return o, nil
}

func (s *session) Find(_ context.Context, _ external.Key, mark external.Mark) (out []external.Observation, err error) {
	s.call("find", mark.ID)
	for ref, t := range s.things {
		if mark.Is(&t.mark) || mark.ID == "" && mark.Owner == t.mark.Owner {
			out = append(out, external.Observation{Presence: external.Present, Ref: ref, Mark: &t.mark})
		}
	}
	return out, s.observeErr
}

func (s *session) Prepare(external.Verb, external.Observation) (external.Request, error) {
	size, _, _ := unstructured.NestedString(s.o.Object, "spec", "forProvider", "size")
	return json.Marshal(size)
}

func (s *session) WriteOnlyDigest() string { return "" }

func (s *session) Begin(_ context.Context, i external.Intent) (external.Op, error) {
	s.call(string(i.Verb), cmp.Or(string(i.Ref), i.Key.Name))
	if s.rejection != nil {
		return external.Op{Err: s.rejection}, nil
	}
	if s.unreachable != nil {
		return external.Op{}, s.unreachable
	}
	ref := i.Ref
	switch i.Verb {
	case external.Create:
		ref = s.create(i)
	case external.Update:
		s.things[ref].request, s.things[ref].polls = string(i.Request), s.slow
	case external.Delete:
		s.things[ref].leaving, s.things[ref].polls = true, s.slow
	}
	if s.during != nil {
		if err := s.during(i.Verb); err != nil {
			return external.Op{}, err
		}
	}
	return s.progress(ref), nil
}

// create creates a resource, unless it recognizes the token.
func (s *session) create(i external.Intent) external.Ref {
	ref := external.Ref(i.Key.Name)
	if s.caps.Naming == external.ProviderAssigned {
		ref = external.Ref(fmt.Sprintf("id-%d", s.created+1))
	}
	for known, t := range s.things {
		if s.caps.TokenTTL > 0 && t.token == i.Token {
			return known
		}
	}
	s.created++
	s.things[ref] = &thing{mark: i.Mark, token: i.Token, request: string(i.Request), polls: s.slow}
	return ref
}

func (s *session) Poll(_ context.Context, op external.Op) (external.Op, error) {
	s.call("poll", op.Resume)
	if s.unreachable != nil {
		return external.Op{}, s.unreachable
	}
	if s.during != nil {
		if err := s.during("poll"); err != nil {
			return external.Op{}, err
		}
	}
	return s.progress(external.Ref(op.Resume)), nil
}

// progress advances an operation by one poll.
func (s *session) progress(ref external.Ref) external.Op {
	t := s.things[ref]
	if t == nil {
		return external.Op{Done: true, Ref: ref}
	}
	if t.polls > 0 {
		t.polls--
		return external.Op{Resume: string(ref), Ref: ref, RetryAfter: 5 * time.Second}
	}
	if t.leaving {
		delete(s.things, ref)
	}
	return external.Op{Done: true, Ref: ref}
}

func (s *session) Close() error {
	s.open--
	return nil
}
