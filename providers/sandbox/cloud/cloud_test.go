package cloud

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var logs = Key{Type: TypeBucket, Scope: "main", ID: "logs"}

// testCloud is a cloud with a fake clock.
type testCloud struct {
	*Faulty
	t     *testing.T
	clock *time.Time
}

func newTestCloud(t *testing.T, b Behaviour) testCloud {
	t.Helper()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	c := New(Options{Now: func() time.Time { return now }, Journal: &Journal{}, Behaviours: map[Type]Behaviour{TypeBucket: b}})
	return testCloud{NewFaulty(c), t, &now}
}

func (p testCloud) advance(d time.Duration) { *p.clock = p.clock.Add(d) }

func (p testCloud) call(q Request) Operation {
	p.t.Helper()
	op, err := p.Call(q)
	if err != nil {
		p.t.Fatal(err)
	}
	return op
}

// state returns the state that reads return; empty for none.
func (p testCloud) state(k Key) State {
	p.t.Helper()
	r, err := p.Get(k)
	if err != nil && !errors.Is(err, NotFound) {
		p.t.Fatal(err)
	}
	return r.State
}

func create(k Key, p Properties) Request { return Request{Verb: VerbCreate, Key: k, Properties: p} }

func TestOperationsAreAsynchronous(t *testing.T) {
	p := newTestCloud(t, Behaviour{CreateTime: 10 * time.Second, UpdateTime: 5 * time.Second, DeleteTime: 2 * time.Second})
	steps := []struct {
		verb    Verb
		takes   time.Duration
		during  State
		then    State
		changes Properties
	}{
		{VerbCreate, 10 * time.Second, Creating, Active, Properties{}},
		{VerbUpdate, 5 * time.Second, Updating, Active, Properties{Public: true}},
		{VerbDelete, 2 * time.Second, Deleting, "", Properties{}},
	}
	for _, s := range steps {
		op := p.call(Request{Verb: s.verb, Key: logs, Properties: s.changes})
		if op.Done() || op.RetryAfter != s.takes || p.state(logs) != s.during {
			t.Errorf("%s: got the operation %+v and the resource %s", s.verb, op, p.state(logs))
		}
		if again, err := p.Call(Request{Verb: VerbUpdate, Key: logs}); !errors.Is(err, InvalidState) {
			t.Errorf("%s: want InvalidState for a second operation, got %+v, %v", s.verb, again, err)
		}
		p.advance(s.takes)
		if op, err := p.GetOperation(op.ID); err != nil || op.Status != Succeeded || p.state(logs) != s.then {
			t.Errorf("%s: at the end, got the operation %+v (%v) and the resource %s", s.verb, op, err, p.state(logs))
		}
		if r, err := p.Get(logs); s.then == Active && (err != nil || r.Properties.Public != s.changes.Public) {
			t.Errorf("%s: got %+v (%v)", s.verb, r, err)
		}
	}
}

func TestReadsLagBehind(t *testing.T) {
	p := newTestCloud(t, Behaviour{CreateLag: 3 * time.Second, DeleteLag: 4 * time.Second, ReuseAfter: time.Minute})
	p.call(create(logs, Properties{}))
	listed := func() int {
		all, err := p.List(Query{Type: TypeBucket, Scope: "main"})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for _, s := range []struct {
		wait   time.Duration
		delete bool
		want   State
	}{{0, false, ""}, {3 * time.Second, false, Active}, {0, true, Active}, {3 * time.Second, false, Active}, {time.Second, false, ""}} {
		p.advance(s.wait)
		if s.delete {
			p.call(Request{Verb: VerbDelete, Key: logs})
		}
		if got := p.state(logs); got != s.want || (listed() == 1) != (s.want != "") {
			t.Errorf("at %s: Get returns %q and List %d resources, want %q", p.clock, got, listed(), s.want)
		}
	}
	_, err := p.Call(create(logs, Properties{}))
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != AlreadyExists || refused.RetryAfter != 56*time.Second {
		t.Errorf("want AlreadyExists for 56 s, got %v", err)
	}
	p.advance(56 * time.Second)
	p.call(create(logs, Properties{}))
}

func TestATokenMakesACallIdempotent(t *testing.T) {
	p := newTestCloud(t, Behaviour{Naming: ProviderAssigned, TokenTTL: time.Hour})
	q := create(Key{Type: TypeBucket, Scope: "main"}, Properties{})
	q.Token = "once"
	first := p.call(q)
	if again := p.call(q); again.ID != first.ID || len(p.Admin().Resources()) != 1 {
		t.Errorf("want the first operation %+v, got %+v", first, again)
	}
	other := q
	other.Properties.Public = true
	if op, err := p.Call(other); !errors.Is(err, IdempotencyMismatch) {
		t.Errorf("want IdempotencyMismatch for another request, got %+v, %v", op, err)
	}
	p.advance(time.Hour)
	if late := p.call(q); late.Resource == first.Resource {
		t.Errorf("the token is recognized after its TTL: %+v", late)
	}
	if count := len(p.Journal().Select(Did(VerbCreate), HadEffect)); count != 2 {
		t.Errorf("want 2 creations with an effect, got %d", count)
	}
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	p := newTestCloud(t, Behaviour{Tags: TagsNone})
	at := func(of Type, id string) Key { return Key{Type: of, Scope: "main", ID: id} }
	network, subnet := at(TypeNetwork, "net"), at(TypeSubnet, "sub")
	p.call(create(network, Properties{CIDR: "10.0.0.0/8"}))
	p.call(create(subnet, Properties{CIDR: "10.1.0.0/16", Network: "net"}))
	p.call(create(logs, Properties{}))
	cases := map[string]struct {
		q    Request
		want Code
	}{
		"a name that exists":                  {create(logs, Properties{}), AlreadyExists},
		"an invalid name":                     {create(at(TypeBucket, "My Logs"), Properties{}), InvalidParameter},
		"an unknown type":                     {create(at("queue", "q"), Properties{}), InvalidParameter},
		"tags with TagsNone":                  {Request{Verb: VerbCreate, Key: at(TypeBucket, "b"), Tags: map[string]string{"a": "b"}}, InvalidParameter},
		"an invalid CIDR":                     {create(at(TypeNetwork, "other"), Properties{CIDR: "10"}), InvalidParameter},
		"a subnet of a missing network":       {create(at(TypeSubnet, "other"), Properties{CIDR: "10.0.0.0/8", Network: "none"}), NotFound},
		"a cluster without subnets":           {create(at(TypeCluster, "c"), Properties{}), InvalidParameter},
		"an update of a missing resource":     {Request{Verb: VerbUpdate, Key: at(TypeBucket, "none")}, NotFound},
		"a deletion of a missing resource":    {Request{Verb: VerbDelete, Key: at(TypeBucket, "none")}, NotFound},
		"a deletion of a referenced resource": {Request{Verb: VerbDelete, Key: network}, DependencyViolation},
		"an update to a missing network":      {Request{Verb: VerbUpdate, Key: subnet, Properties: Properties{CIDR: "10.1.0.0/16", Network: "none"}}, NotFound},
		"an update to invalid properties":     {Request{Verb: VerbUpdate, Key: network}, InvalidParameter},
	}
	for name, tc := range cases {
		if _, err := p.Call(tc.q); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
	if _, err := p.List(Query{Type: TypeBucket, Scope: "main", Tags: map[string]string{"a": "b"}}); !errors.Is(err, InvalidParameter) {
		t.Errorf("want InvalidParameter for List by tags with TagsNone, got %v", err)
	}
	p.call(Request{Verb: VerbDelete, Key: subnet})
	p.call(Request{Verb: VerbDelete, Key: network})
}

func TestFaults(t *testing.T) {
	slow := Behaviour{CreateTime: 10 * time.Second}
	cases := map[string]struct {
		fault  Fault
		answer Code
		// now and later are the states right after the call, and a minute later.
		now, later State
	}{
		"refused":      {Fault{Refuse: Throttled, RetryAfter: time.Second}, Throttled, "", ""},
		"lost":         {Fault{Lose: Timeout}, Timeout, Creating, Active},
		"late":         {Fault{Late: 55 * time.Second}, Timeout, "", Creating},
		"broken":       {Fault{Break: true}, "", Creating, Failed},
		"for updates":  {Fault{Verb: VerbUpdate, Refuse: Unavailable}, "", Creating, Active},
		"for networks": {Fault{Type: TypeNetwork, Lose: Timeout}, "", Creating, Active},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newTestCloud(t, slow)
			p.Inject(tc.fault)
			_, err := p.Call(create(logs, Properties{}))
			if got := codeOf(err); got != tc.answer {
				t.Errorf("got %v", err)
			}
			if got := p.state(logs); got != tc.now {
				t.Errorf("after the call, got the state %q, want %q", got, tc.now)
			}
			p.advance(time.Minute)
			if got := p.state(logs); got != tc.later {
				t.Errorf("a minute later, got the state %q, want %q", got, tc.later)
			}
			if used := tc.fault.Verb == "" && tc.fault.Type == ""; used != (len(p.Faults()) == 0) || used != (p.Hits() == 1) {
				t.Errorf("got %d hits, and %v is left", p.Hits(), p.Faults())
			}
			p.ClearFaults()
			if left := p.Faults(); len(left) > 0 {
				t.Errorf("%v is left of the script after ClearFaults", left)
			}
		})
	}
}

func TestReadsHaveFaults(t *testing.T) {
	p := newTestCloud(t, Behaviour{})
	p.Inject(Fault{Lose: Unavailable, Times: 3}, Fault{Verb: VerbCreate, Break: true})
	_, get := p.Get(logs)
	_, list := p.List(Query{Type: TypeBucket, Scope: "main"})
	_, op := p.GetOperation("op-00000001")
	for _, err := range []error{get, list, op} {
		if !errors.Is(err, Unavailable) {
			t.Errorf("want Unavailable, got %v", err)
		}
	}
	if p.state(logs) != "" || len(p.Faults()) != 1 {
		t.Errorf("a read has used the fault for creations: %v", p.Faults())
	}
}

func TestSetChanceAppliesWithoutAScript(t *testing.T) {
	p := newTestCloud(t, Behaviour{})
	p.SetChance(func() Fault { return Fault{Refuse: Throttled} })
	p.Inject(Fault{Lose: Timeout})
	for _, want := range []Code{Timeout, Throttled} {
		if _, err := p.Call(create(logs, Properties{})); !errors.Is(err, want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	p.SetChance(func() Fault { return Fault{} })
	if p.state(logs) != Active || p.Hits() != 2 {
		t.Errorf("got the state %q and %d hits", p.state(logs), p.Hits())
	}
}

func TestAdminChangesImmediately(t *testing.T) {
	p := newTestCloud(t, Behaviour{CreateTime: time.Minute})
	op := p.call(create(logs, Properties{}))
	if err := errors.Join(p.Admin().Retag(logs, map[string]string{"of": "mine"}), p.Admin().Change(logs, Properties{Public: true})); err != nil {
		t.Fatal(err)
	}
	found, err := p.List(Query{Type: TypeBucket, Scope: "main", Tags: map[string]string{"of": "mine"}})
	if err != nil || len(found) != 1 || !found[0].Properties.Public {
		t.Errorf("List by the tag returned %+v (%v)", found, err)
	}
	if err := p.Admin().Delete(logs); err != nil || len(p.Admin().Resources()) > 0 {
		t.Errorf("want no resources, got %+v (%v)", p.Admin().Resources(), err)
	}
	if op, err := p.GetOperation(op.ID); err != nil || op.Status != FailedOperation || op.Error.Code != NotFound {
		t.Errorf("want a failed creation, got %+v (%v)", op, err)
	}
	if err := p.Admin().Delete(logs); !errors.Is(err, NotFound) {
		t.Errorf("want NotFound for a second deletion, got %v", err)
	}
}

// TestOpenRestoresTheCloud opens the file anew for each call, as after a crash.
func TestOpenRestoresTheCloud(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "cloud.json")
	open := func() *Cloud {
		c, err := Open(file, Options{Now: func() time.Time { return now }, Behaviours: map[Type]Behaviour{TypeCluster: {CreateTime: time.Minute, TokenTTL: time.Hour}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	make := func(k Key, p Properties, token string) Operation {
		op, err := open().Call(Request{Verb: VerbCreate, Key: k, Tags: map[string]string{"a": "b"}, Properties: p, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	web := Key{Type: TypeCluster, Scope: "main", ID: "web"}
	make(Key{Type: TypeNetwork, Scope: "main", ID: "net"}, Properties{CIDR: "10.0.0.0/8"}, "")
	make(Key{Type: TypeSubnet, Scope: "main", ID: "sub"}, Properties{CIDR: "10.0.0.0/16", Network: "net"}, "")
	make(Key{Type: TypeRole, Scope: "main", ID: "person"}, Properties{Trust: "web", Policies: []string{"read"}}, "")
	cluster := Properties{Subnets: []string{"sub"}, Role: "person", Nodes: 3}
	op := make(web, cluster, "once")
	if again := make(web, cluster, "once"); again.ID != op.ID {
		t.Errorf("want the operation of the token %+v, got %+v", op, again)
	}
	now = now.Add(time.Minute)
	want := Resource{
		Key: web, Serial: 4, Tags: map[string]string{"a": "b"}, Properties: cluster, State: Active, Created: now.Add(-time.Minute),
		Endpoint: "https://web.cluster.main.sandbox.internal", Certificate: "certificate of web.cluster.main.sandbox.internal",
	}
	got, err := open().Get(web)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if len(open().Admin().Resources()) != 4 {
		t.Errorf("want 4 resources, got %+v", open().Admin().Resources())
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Options{}); err == nil {
		t.Error("want an error for an invalid file")
	}
}
