package cloud_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

var logs = cloud.CreateRequest{Scope: scope, Name: "logs", Tags: map[string]string{"mark": "m"}, Properties: cloud.Bucket{}, Token: "t"}

func TestARefusedCallHasNoEffect(t *testing.T) {
	for _, code := range []cloud.Code{cloud.Throttled, cloud.Unavailable} {
		s := open(t, nil)
		s.must(s.Inject(cloud.Fault{Verb: cloud.VerbCreate, Times: 2, Refuse: code, RetryAfter: time.Second}))
		for range 2 {
			s.kill() // the script goes on over restarts
			_, err := s.Create(logs)
			if e := s.refusal(err, code); e.RetryAfter != time.Second || e.Ambiguous() != (code == cloud.Unavailable) {
				t.Errorf("%+v", e)
			}
		}
		if all := s.truth(); len(all.Resources)+len(all.Faults) != 0 {
			t.Errorf("%s: %+v", code, all)
		}
		_, err := s.Create(logs)
		s.must(err)
	}
}

func TestALostAnswerLeavesAnEffect(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{TokenTTL: time.Hour}))
	s.must(s.Inject(cloud.Fault{Verb: cloud.VerbCreate, Lose: cloud.Timeout}, cloud.Fault{Verb: cloud.VerbGet, Lose: cloud.Unavailable}))
	_, err := s.Create(logs)
	s.refused(err, cloud.Timeout)
	_, err = s.Get(cloud.Key{Type: cloud.TypeBucket, Scope: scope, ID: "logs"})
	s.refused(err, cloud.Unavailable)
	op, err := s.Create(logs)
	s.must(err)
	if op.ID != "op-00000001" || s.state(op.Resource) != cloud.Active {
		t.Errorf("%+v", op)
	}
	s.must(s.Inject(cloud.Fault{Lose: cloud.Timeout}))
	_, err = s.Create(cloud.CreateRequest{})
	s.refused(err, cloud.InvalidParameter) // what never leaves the house isn't lost
	s.must(s.Inject(cloud.Fault{Lose: cloud.Timeout}))
	_, err = s.Create(cloud.CreateRequest{Scope: scope, Name: "logs", Properties: cloud.Bucket{}})
	s.refused(err, cloud.Timeout) // a refusal is lost as well
}

func TestALateCallArrivesWhenNobodyExpectsIt(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{TokenTTL: time.Hour, CreateTime: time.Minute}))
	s.must(s.Inject(cloud.Fault{Verb: cloud.VerbCreate, Late: 10 * time.Minute}))
	_, err := s.Create(logs)
	s.refused(err, cloud.Timeout)
	k := cloud.Key{Type: cloud.TypeBucket, Scope: scope, ID: "logs"}
	if due := s.NextChange(); !due.Equal(began.Add(10*time.Minute)) || s.state(k) != "" || s.truth().Late != 1 {
		t.Errorf("too early: %s", due)
	}
	s.kill()
	s.wait(10 * time.Minute)
	if s.state(k) != cloud.Creating || !s.get(k).Created.Equal(s.now) {
		t.Errorf("%+v", s.truth())
	}
	s.kill()
	s.wait(time.Minute)
	if s.state(k) != cloud.Active {
		t.Errorf("%+v", s.truth())
	}
	want := []cloud.Entry{
		{At: began, Verb: cloud.VerbCreate, Key: cloud.Key{Type: cloud.TypeBucket, Scope: scope}, Name: "logs", Token: "t", Tags: logs.Tags, Code: cloud.Timeout},
		{At: began.Add(10 * time.Minute), Verb: cloud.VerbCreate, Key: k, Serial: 1, Name: "logs", Token: "t", Tags: logs.Tags, Operation: "op-00000001", Effect: true, Late: true},
	}
	if diff := cmp.Diff(want, s.log.Select(cloud.Did(cloud.VerbCreate))); diff != "" {
		t.Error(diff)
	}
}

func TestALateCallIsJudgedWhenItArrives(t *testing.T) {
	cases := map[string]struct {
		ttl       time.Duration
		naming    cloud.Naming
		resources int
		late      cloud.Code
		replayed  bool
	}{
		"A token of a call that overtook it makes it one":    {time.Hour, cloud.ProviderAssigned, 1, "", true},
		"A token that has expired doesn't":                   {time.Minute, cloud.ProviderAssigned, 2, "", false},
		"A name makes it one":                                {0, cloud.CallerAssigned, 1, cloud.AlreadyExists, false},
		"Without either there are two, for all one can tell": {0, cloud.ProviderAssigned, 2, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, only(cloud.TypeBucket, cloud.Behaviour{Naming: tc.naming, TokenTTL: tc.ttl}))
			s.must(s.Inject(cloud.Fault{Late: 2 * time.Minute}))
			_, err := s.Create(logs)
			s.refused(err, cloud.Timeout)
			_, err = s.Create(logs)
			s.must(err)
			s.wait(2 * time.Minute)
			if n := len(s.truth().Resources); n != tc.resources {
				t.Errorf("there are %d resources", n)
			}
			late := s.log.Select(func(e cloud.Entry) bool { return e.Late })
			if len(late) != 1 || late[0].Code != tc.late || late[0].Replayed != tc.replayed || late[0].Effect != (tc.resources == 2) {
				t.Errorf("%+v", late)
			}
		})
	}
}

func TestLateCallsAndOperationsComeInTheirOrder(t *testing.T) {
	play := func(look time.Duration) cloud.Snapshot {
		s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateTime: 3 * time.Minute, DeleteTime: time.Minute, ReuseAfter: time.Minute}))
		s.must(s.Inject(
			cloud.Fault{Verb: cloud.VerbDelete, Late: 4 * time.Minute},
			cloud.Fault{Verb: cloud.VerbCreate, Skip: 1, Late: 6 * time.Minute},
		))
		op, err := s.Create(logs)
		s.must(err)
		_, err = s.Delete(cloud.DeleteRequest{Key: op.Resource})
		s.refused(err, cloud.Timeout)
		_, err = s.Create(logs) // lands as soon as the name is free
		s.refused(err, cloud.Timeout)
		for s.now.Before(began.Add(20 * time.Minute)) {
			s.wait(look)
			s.kill()
			s.truth()
		}
		return s.truth()
	}
	once := play(20 * time.Minute)
	if len(once.Resources) != 1 || once.Resources[0].Serial != 2 || !once.Resources[0].Created.Equal(began.Add(6*time.Minute)) {
		t.Errorf("%+v", once.Resources)
	}
	if diff := cmp.Diff(once, play(time.Minute)); diff != "" {
		t.Errorf("it matters how often one looks: %s", diff)
	}
}

func TestWhatComesAtOneMomentHasAnOrder(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateTime: time.Minute}))
	op, err := s.Create(logs)
	s.must(err)
	s.must(s.Inject(cloud.Fault{Times: 20, Late: time.Minute}))
	_, err = s.Delete(cloud.DeleteRequest{Key: op.Resource})
	s.refused(err, cloud.Timeout)
	for n := range 19 {
		_, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "logs", Tags: map[string]string{"call": fmt.Sprint(n)}, Properties: cloud.Bucket{}})
		s.refused(err, cloud.Timeout)
	}
	s.kill()
	s.wait(time.Minute)
	r := s.get(op.Resource) // operations end first, and late calls arrive as they were sent
	if r.Serial != 2 || r.Tags["call"] != "0" {
		t.Errorf("%+v", r)
	}
}

func TestASlowOperationTakesLonger(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateTime: time.Minute}))
	s.must(s.Inject(cloud.Fault{Slow: time.Hour, Lose: cloud.Timeout}))
	_, err := s.Create(logs)
	s.refused(err, cloud.Timeout)
	s.wait(time.Hour + time.Minute - 1)
	k := cloud.Key{Type: cloud.TypeBucket, Scope: scope, ID: "logs"}
	if s.state(k) != cloud.Creating {
		t.Errorf("%s", s.state(k))
	}
	s.wait(1)
	if s.state(k) != cloud.Active {
		t.Errorf("%s", s.state(k))
	}
}

func TestAnOperationThatBreaksLeavesItsHalf(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateTime: time.Hour, UpdateTime: time.Hour, DeleteTime: time.Hour}))
	s.must(s.Inject(cloud.Fault{Times: 4, Break: true}))
	half := func(op cloud.Operation, err error) cloud.Resource {
		t.Helper()
		s.must(err)
		s.wait(30*time.Minute - 1)
		if s.status(op) != cloud.Running {
			t.Error("broken too early")
		}
		s.wait(1)
		s.kill()
		end, err := s.GetOperation(op.ID)
		s.must(err)
		r := s.get(op.Resource)
		if r.State != cloud.Failed || end.Status != cloud.FailedOperation || end.Error == nil || end.Error.Message != r.Message || !end.Ended.Equal(s.now) {
			t.Errorf("%+v of %+v", end, r)
		}
		return r
	}
	r := half(s.Create(logs))
	if r.Outputs.URL != "" || !s.NextChange().IsZero() {
		t.Errorf("%+v", r)
	}
	_, err := s.Create(logs)
	s.refused(err, cloud.AlreadyExists) // and the second fault is used up
	r = half(s.Update(cloud.UpdateRequest{Key: r.Key, Properties: cloud.Bucket{Public: true}, Tags: map[string]string{"new": "tag"}}))
	if r.Properties != (cloud.Bucket{}) || r.Tags["new"] != "tag" {
		t.Errorf("%+v", r)
	}
	half(s.Delete(cloud.DeleteRequest{Key: r.Key}))

	_, err = s.Update(cloud.UpdateRequest{Key: r.Key})
	s.must(err)
	s.wait(time.Hour)
	if r := s.get(r.Key); r.State != cloud.Active || r.Message != "" || r.Outputs.URL == "" {
		t.Errorf("not repaired: %+v", r)
	}
}

func TestFaultsHitTheCallsTheyAreFor(t *testing.T) {
	s := open(t, nil)
	s.must(s.Inject(
		cloud.Fault{Verb: cloud.VerbCreate, Type: cloud.TypeBucket, Skip: 1, Refuse: cloud.Throttled},
		cloud.Fault{Type: cloud.TypeRole, Times: 2, Refuse: cloud.Unavailable},
		cloud.Fault{Verb: cloud.VerbGetOperation, Type: cloud.TypeBucket, Refuse: cloud.Throttled},
	))
	code := func(want cloud.Code, err error) {
		t.Helper()
		if got := cloud.CodeOf(err); got != want {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	create := func(name string, p cloud.Properties) error {
		_, err := s.Create(cloud.CreateRequest{Scope: scope, Name: name, Properties: p})
		return err
	}
	role := cloud.Role{Trust: "x"}
	code("", create("a", cloud.Bucket{}))
	code(cloud.Unavailable, create("r", role))
	code(cloud.Throttled, create("b", cloud.Bucket{}))
	code("", create("b", cloud.Bucket{}))
	_, err := s.Get(cloud.Key{Type: cloud.TypeRole, Scope: scope, ID: "r"})
	code(cloud.Unavailable, err)
	code("", create("r", role))
	_, err = s.GetOperation("op-00000003")
	code("", err) // that is the role's
	_, err = s.GetOperation("op-00000001")
	code(cloud.Throttled, err)
	s.must(s.Inject(cloud.Fault{Times: 5, Refuse: cloud.Throttled}))
	if diff := cmp.Diff([]cloud.Fault{{Times: 5, Refuse: cloud.Throttled}}, s.Faults()); diff != "" {
		t.Error(diff)
	}
	s.must(s.ClearFaults())
	code("", create("c", cloud.Bucket{}))
}

func TestFaultsThatMakeNoSenseAreRefused(t *testing.T) {
	s := open(t, nil)
	for name, f := range map[string]cloud.Fault{
		"no trouble":           {},
		"no such verb":         {Verb: "Look", Refuse: cloud.Throttled},
		"no such type":         {Type: "queue", Refuse: cloud.Throttled},
		"negative":             {Times: -1, Refuse: cloud.Throttled},
		"another refusal":      {Refuse: cloud.NotFound},
		"another loss":         {Lose: cloud.Throttled},
		"refused and lost":     {Refuse: cloud.Throttled, Lose: cloud.Timeout},
		"a read that is late":  {Verb: cloud.VerbGet, Late: time.Second},
		"negative time":        {Slow: -1, Break: true},
		"nothing else than so": {Skip: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s.refused(s.Inject(cloud.Fault{Break: true}, f), cloud.InvalidParameter)
		})
	}
	if left := s.Faults(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestChanceIsTheSameForTheSameSeed(t *testing.T) {
	play := func(seed uint64) (out []cloud.Code) {
		s := open(t, nil)
		s.must(s.SetChaos(cloud.Chaos{Seed: seed, Throttle: .1, Refuse: .1, Lose: .1, Late: .1, Break: .1, Delay: time.Minute}))
		for range 80 {
			_, err := s.Create(logs)
			out = append(out, cloud.CodeOf(err))
			s.kill() // luck isn't drawn anew
			s.wait(time.Second)
		}
		return out
	}
	first := play(1)
	if diff := cmp.Diff(first, play(1)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(first, play(2)) {
		t.Error("another seed has the same luck")
	}
	seen := map[cloud.Code]bool{}
	for _, code := range first {
		seen[code] = true
	}
	for _, code := range []cloud.Code{cloud.Throttled, cloud.Unavailable, cloud.Timeout, cloud.AlreadyExists} {
		if !seen[code] {
			t.Errorf("%s has never come", code)
		}
	}
	s := open(t, nil)
	s.refused(s.SetChaos(cloud.Chaos{Lose: .6, Late: .6}), cloud.InvalidParameter)
	s.refused(s.SetChaos(cloud.Chaos{Lose: -1}), cloud.InvalidParameter)
}
