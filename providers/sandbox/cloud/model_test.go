package cloud_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// step is something that somebody does to a cloud; what it answers is text, so that two
// clouds can be compared.
type step struct {
	what string
	do   func(*site) string
}

func (s step) String() string { return s.what }

const (
	quota = 3
	ttl   = 7 * time.Second
)

// TestNothingThatWasAcknowledgedIsLost plays the same steps to two clouds: one runs
// through, the other is killed after every step. They answer the same and end with the
// same bytes on disk; and what they hold is what their journal says, under their rules.
func TestNothingThatWasAcknowledgedIsLost(t *testing.T) {
	beginnings := map[cloud.Naming][]byte{cloud.CallerAssigned: beginning(t, cloud.CallerAssigned), cloud.ProviderAssigned: beginning(t, cloud.ProviderAssigned)}
	rapid.Check(t, func(r *rapid.T) {
		ledger := beginnings[rapid.SampledFrom([]cloud.Naming{cloud.CallerAssigned, cloud.ProviderAssigned}).Draw(r, "naming")]
		steady, killed := twin(t, ledger), twin(t, ledger)
		defer steady.Close()
		defer func() { killed.Close() }()
		w := witness{site: steady, acknowledged: map[string]cloud.Operation{}}
		w.look(r)
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			next := draw(r, steady, w.last)
			want, got := next.do(steady), next.do(killed)
			killed.kill()
			if want != got {
				r.Fatalf("%s: %s, and if killed %s", next, want, got)
			}
			w.look(r)
		}
		if diff := cmp.Diff(steady.truth(), killed.truth()); diff != "" {
			r.Fatal(diff)
		}
		one, _ := os.ReadFile(filepath.Join(steady.dir, "ledger"))
		other, _ := os.ReadFile(filepath.Join(killed.dir, "ledger"))
		if string(one) != string(other) {
			r.Fatal("the same calls have left other bytes")
		}
	})
}

// beginning is the ledger of a cloud in which nothing has happened yet.
func beginning(t *testing.T, naming cloud.Naming) []byte {
	b := cloud.Behaviour{
		Naming: naming, TokenTTL: ttl, CreateLag: 2 * time.Second, DeleteLag: 3 * time.Second, CreateTime: 4 * time.Second,
		UpdateTime: 2 * time.Second, DeleteTime: 3 * time.Second, ReuseAfter: time.Second, Quota: quota, Forget: time.Minute,
	}
	all := map[cloud.Type]cloud.Behaviour{}
	for _, kind := range cloud.Types() {
		all[kind] = b
	}
	s := open(t, all)
	ledger, err := os.ReadFile(filepath.Join(s.dir, "ledger"))
	s.must(err)
	return ledger
}

// twin opens a cloud with a copy of a ledger.
func twin(t *testing.T, ledger []byte) *site {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ledger"), ledger, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, now: began, log: cloud.NewJournal(10_000)}
	s.open(nil)
	return s
}

// draw draws a step, which mostly is about something that is there.
func draw(r *rapid.T, s *site, all cloud.Snapshot) step {
	ids := map[cloud.Type][]string{}
	keys := []cloud.Key{{Type: cloud.TypeBucket, Scope: "dev", ID: "no"}}
	for _, x := range all.Resources {
		ids[x.Type] = append(ids[x.Type], x.ID)
		keys = append(keys, x.Key)
	}
	key := rapid.SampledFrom(keys).Draw(r, "key")
	token := rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(r, "token")
	tags := map[string]string{"mark": rapid.SampledFrom([]string{"a", "b"}).Draw(r, "mark")}
	version := ""
	if rapid.IntRange(0, 3).Draw(r, "versioned") == 0 {
		version = "1.2"
	}
	switch rapid.IntRange(0, 13).Draw(r, "what") {
	case 0, 1, 2, 3:
		ask := cloud.CreateRequest{Scope: "dev", Name: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(r, "name"), Tags: tags, Token: token}
		ask.Properties = properties(r, rapid.SampledFrom(cloud.Types()).Draw(r, "type"), ids)
		return step{fmt.Sprintf("create %+v", ask), func(s *site) string { return answer(s.Create(ask)) }}
	case 4, 5:
		ask := cloud.UpdateRequest{Key: key, IfMatch: version, Tags: tags, Token: token, Properties: properties(r, key.Type, ids)}
		return step{fmt.Sprintf("update %+v", ask), func(s *site) string { return answer(s.Update(ask)) }}
	case 6, 7:
		ask := cloud.DeleteRequest{Key: key, IfMatch: version, Token: token}
		return step{fmt.Sprintf("delete %+v", ask), func(s *site) string { return answer(s.Delete(ask)) }}
	case 8:
		return step{fmt.Sprintf("get %s", key), func(s *site) string { return answer(s.Get(key)) }}
	case 9:
		return step{"list", func(s *site) string { return answer(s.List(cloud.Query{Type: key.Type, Tags: tags})) }}
	case 10:
		return step{"interfere", interfere(r, key, ids)}
	case 11:
		f := fault(r)
		return step{fmt.Sprintf("inject %+v", f), func(s *site) string { return answer(0, s.Inject(f)) }}
	default:
		d := time.Duration(rapid.IntRange(1, 4).Draw(r, "seconds")) * time.Second
		if due := s.NextChange(); !due.IsZero() && due.Sub(s.now) < d {
			d = due.Sub(s.now) // so that each state is seen
		}
		return step{fmt.Sprintf("wait %s", d), func(s *site) string { s.wait(d); return "" }}
	}
}

func answer[T any](out T, err error) string { return fmt.Sprintf("%+v %v", out, err) }

func interfere(r *rapid.T, key cloud.Key, ids map[cloud.Type][]string) func(*site) string {
	p := properties(r, key.Type, ids)
	return rapid.SampledFrom([]func(*site) string{
		func(s *site) string { return answer(0, s.Admin().Delete(key)) },
		func(s *site) string { return answer(0, s.Admin().Retag(key, map[string]string{"mark": "theirs"})) },
		func(s *site) string { return answer(0, s.Admin().Change(key, p)) },
		func(s *site) string { return answer(0, s.Admin().Fill(key, 1)) },
	}).Draw(r, "interference")
}

func fault(r *rapid.T) cloud.Fault {
	f := rapid.SampledFrom([]cloud.Fault{
		{Refuse: cloud.Throttled}, {Refuse: cloud.Unavailable}, {Lose: cloud.Timeout}, {Late: 3 * time.Second},
		{Late: ttl + time.Second}, {Slow: 3 * time.Second}, {Break: true}, {Lose: cloud.Unavailable, Break: true},
	}).Draw(r, "fault")
	f.Skip = rapid.IntRange(0, 1).Draw(r, "skip")
	return f
}

func properties(r *rapid.T, t cloud.Type, ids map[cloud.Type][]string) cloud.Properties {
	one := func(t cloud.Type) string { return rapid.SampledFrom(append(ids[t], "no")).Draw(r, "one") }
	yes := rapid.Bool().Draw(r, "yes")
	switch t {
	case cloud.TypeNetwork:
		return cloud.Network{CIDR: rapid.SampledFrom([]string{"10.0.0.0/16", "10.0.0.0/23"}).Draw(r, "network")}
	case cloud.TypeSubnet:
		cidr := rapid.SampledFrom([]string{"10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.0.128/25"}).Draw(r, "subnet")
		return cloud.Subnet{Network: one(cloud.TypeNetwork), CIDR: cidr, Public: yes}
	case cloud.TypeRole:
		return cloud.Role{Trust: fmt.Sprint(yes)}
	case cloud.TypeCluster:
		return cloud.Cluster{Subnets: slices.Compact([]string{one(cloud.TypeSubnet), one(cloud.TypeSubnet)}), Role: one(cloud.TypeRole)}
	default:
		return cloud.Bucket{Public: yes}
	}
}

// witness looks at a cloud after every step.
type witness struct {
	site         *site
	last         cloud.Snapshot
	acknowledged map[string]cloud.Operation
}

func (w *witness) look(r *rapid.T) {
	all, err := w.site.Admin().Snapshot()
	if err != nil {
		r.Fatal(err)
	}
	w.lawful(r, all)
	w.recorded(r, all)
	w.once(r)
	consistent(r, all)
	w.last = all
}

// steps are those of a resource's life; "" is before it and after it.
var steps = map[cloud.State][]cloud.State{
	"":             {cloud.Creating},
	cloud.Creating: {cloud.Active, cloud.Failed},
	cloud.Active:   {cloud.Updating, cloud.Deleting},
	cloud.Updating: {cloud.Active, cloud.Failed},
	cloud.Failed:   {cloud.Updating, cloud.Deleting},
	cloud.Deleting: {cloud.Failed, ""},
}

// lawful checks that each resource has made at most two steps of its life: one moment
// can end an operation and bring a late call. Where somebody interferes, a resource may
// end at any time.
func (w *witness) lawful(r *rapid.T, all cloud.Snapshot) {
	before, now := states(w.last), states(all)
	for serial, state := range now {
		from := before[serial]
		ok := from == state
		for _, next := range steps[from] {
			ok = ok || next == state || slices.Contains(steps[next], state)
		}
		if !ok {
			r.Fatalf("resource %d was %q and is %q", serial, from, state)
		}
	}
	for serial := range before {
		if now[serial] == "" && !w.ended(serial) {
			r.Fatalf("resource %d was %s and is gone, and nobody has done it", serial, before[serial])
		}
	}
}

func states(all cloud.Snapshot) map[int64]cloud.State {
	out := map[int64]cloud.State{}
	for _, x := range all.Resources {
		out[x.Serial] = x.State
	}
	return out
}

func (w *witness) ended(serial int64) bool {
	return len(w.site.log.Select(cloud.Did(cloud.VerbDelete), cloud.HadEffect, func(e cloud.Entry) bool { return e.Serial == serial })) > 0
}

// recorded checks that what there is, is what the journal says, and that no operation
// of which anybody was told is lost.
func (w *witness) recorded(r *rapid.T, all cloud.Snapshot) {
	made := map[int64]int{}
	for _, e := range w.site.log.Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect) {
		made[e.Serial]++
	}
	now := states(all)
	for serial := range now {
		if made[serial] != 1 {
			r.Fatalf("resource %d was made %d times", serial, made[serial])
		}
	}
	for serial := range made {
		if now[serial] == "" && !w.ended(serial) {
			r.Fatalf("resource %d is lost", serial)
		}
	}
	known := map[string]cloud.Operation{}
	for _, op := range all.Operations {
		known[op.ID] = op
	}
	for _, e := range w.site.log.Select(cloud.HadEffect, func(e cloud.Entry) bool { return e.Operation != "" }) {
		op, ok := known[e.Operation]
		forgotten := all.At.Sub(w.acknowledged[e.Operation].Ended) >= time.Minute && w.acknowledged[e.Operation].Done()
		if !ok && !forgotten || ok && (op.Serial != e.Serial || op.Verb != e.Verb) {
			r.Fatalf("%s of resource %d is %+v", e.Operation, e.Serial, op)
		}
		if before := w.acknowledged[e.Operation]; ok && before.Done() && !cmp.Equal(before, op) {
			r.Fatalf("%+v was done, and is %+v", before, op)
		}
		if ok {
			w.acknowledged[e.Operation] = op
		}
	}
}

// once checks that a token has one effect within its time.
func (w *witness) once(r *rapid.T) {
	type key struct {
		kind  cloud.Type
		scope string
		token string
	}
	last := map[key]time.Time{}
	for _, e := range w.site.log.Select(cloud.HadEffect, func(e cloud.Entry) bool { return e.Token != "" }) {
		k := key{e.Key.Type, e.Key.Scope, e.Token}
		if at, ok := last[k]; ok && e.At.Sub(at) < ttl {
			r.Fatalf("%+v had an effect at %s and %s", k, at, e.At)
		}
		last[k] = e.At
	}
}

// consistent checks the rules of the cloud: nothing refers to what isn't there or is
// going, ranges are where they belong, no scope holds too many.
func consistent(r *rapid.T, all cloud.Snapshot) {
	there := map[cloud.Key]cloud.Resource{}
	count := map[cloud.Type]int{}
	for _, x := range all.Resources {
		if _, twice := there[x.Key]; twice {
			r.Fatalf("%s is there twice", x.Key)
		}
		there[x.Key] = x
		if count[x.Type]++; count[x.Type] > quota {
			r.Fatalf("there are %d of %s", count[x.Type], x.Type)
		}
	}
	needed := func(by cloud.Resource, t cloud.Type, id string) cloud.Resource {
		x, ok := there[cloud.Key{Type: t, Scope: by.Scope, ID: id}]
		if !ok || x.State == cloud.Deleting {
			r.Fatalf("%s refers to %s %s, which is %q", by.Key, t, id, x.State)
		}
		return x
	}
	ranges := map[string][]netip.Prefix{}
	for _, x := range all.Resources {
		switch p := x.Properties.(type) {
		case cloud.Subnet:
			network := needed(x, cloud.TypeNetwork, p.Network)
			mine := netip.MustParsePrefix(p.CIDR)
			if whole := netip.MustParsePrefix(network.Properties.(cloud.Network).CIDR); whole.Bits() > mine.Bits() || !whole.Overlaps(mine) {
				r.Fatalf("%s is not in %s", p.CIDR, whole)
			}
			if slices.ContainsFunc(ranges[p.Network], mine.Overlaps) {
				r.Fatalf("%s overlaps another", p.CIDR)
			}
			ranges[p.Network] = append(ranges[p.Network], mine)
		case cloud.Cluster:
			needed(x, cloud.TypeRole, p.Role)
			for _, id := range p.Subnets {
				needed(x, cloud.TypeSubnet, id)
			}
		}
	}
}
