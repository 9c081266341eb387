package cloud_test

import (
	"errors"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// scope is where the tests have their resources, unless they need two.
const scope = "eu-north-1/dev"

// began is when tests begin.
var began = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// site is a cloud whose clock the test moves.
type site struct {
	*cloud.Cloud
	t   testing.TB
	dir string
	now time.Time
	log *cloud.Journal
}

func open(t testing.TB, behaviours map[cloud.Type]cloud.Behaviour) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), now: began, log: cloud.NewJournal(1000)}
	s.open(behaviours)
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *site) open(behaviours map[cloud.Type]cloud.Behaviour) {
	s.t.Helper()
	c, err := cloud.Open(s.dir, cloud.Options{Now: func() time.Time { return s.now }, Behaviours: behaviours, Journal: s.log})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Cloud = c
}

// kill ends the process, which says good-bye to nobody, and starts another. (Close
// writes nothing: it lets go of the files, as the system does.)
func (s *site) kill() {
	s.t.Helper()
	s.must(s.Close())
	s.open(nil)
}

func (s *site) wait(d time.Duration) { s.now = s.now.Add(d) }

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// refused fails unless the error has the code.
func (s *site) refused(err error, code cloud.Code) {
	s.t.Helper()
	_ = s.refusal(err, code)
}

// refusal gives the error, which must have the code.
func (s *site) refusal(err error, code cloud.Code) *cloud.Error {
	s.t.Helper()
	var e *cloud.Error
	if !errors.As(err, &e) || e.Code != code {
		s.t.Fatalf("want %s, got %v", code, err)
	}
	return e
}

// create makes a resource in the scope, and gives its key.
func (s *site) create(name string, p cloud.Properties) cloud.Key {
	s.t.Helper()
	op, err := s.Create(cloud.CreateRequest{Scope: scope, Name: name, Properties: p})
	s.must(err)
	return op.Resource
}

// get reads a resource that there must be.
func (s *site) get(k cloud.Key) cloud.Resource {
	s.t.Helper()
	r, err := s.Get(k)
	s.must(err)
	return r
}

// state is the resource's, as reads show it; "" for none.
func (s *site) state(k cloud.Key) cloud.State {
	s.t.Helper()
	r, err := s.Get(k)
	if err != nil {
		s.refused(err, cloud.NotFound)
	}
	return r.State
}

// status is how far an operation is.
func (s *site) status(op cloud.Operation) cloud.Status {
	s.t.Helper()
	now, err := s.GetOperation(op.ID)
	s.must(err)
	return now.Status
}

// truth is everything, as it is.
func (s *site) truth() cloud.Snapshot {
	s.t.Helper()
	all, err := s.Admin().Snapshot()
	s.must(err)
	return all
}

// estate makes a network with two subnets, a role, and a cluster on them.
func (s *site) estate() (network, a, b, role, cluster cloud.Key) {
	s.t.Helper()
	network = s.create("net", cloud.Network{CIDR: "10.0.0.0/16"})
	a = s.create("a", cloud.Subnet{Network: network.ID, CIDR: "10.0.0.0/24"})
	b = s.create("b", cloud.Subnet{Network: network.ID, CIDR: "10.0.1.0/24"})
	role = s.create("role", cloud.Role{Trust: "cluster.sandbox"})
	cluster = s.create("prod", cloud.Cluster{Subnets: []string{a.ID}, Role: role.ID, Nodes: 3})
	return network, a, b, role, cluster
}

// only gives one type one behaviour.
func only(t cloud.Type, b cloud.Behaviour) map[cloud.Type]cloud.Behaviour {
	return map[cloud.Type]cloud.Behaviour{t: b}
}
