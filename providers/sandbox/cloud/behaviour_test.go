package cloud_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

func TestCallersAssignNamesOnce(t *testing.T) {
	s := open(t, nil)
	k := s.create("logs", cloud.Bucket{})
	if k.ID != "logs" {
		t.Errorf("the ID is %s", k.ID)
	}
	_, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "logs", Properties: cloud.Bucket{}})
	if e := s.refusal(err, cloud.AlreadyExists); e.Field != "name" {
		t.Errorf("field %q", e.Field)
	}
	_, err = s.Create(cloud.CreateRequest{Scope: "eu-north-1/prod", Name: "logs", Properties: cloud.Bucket{}})
	s.must(err)
	s.create("logs", cloud.Role{Trust: "x"})
}

func TestTheCloudAssignsIDs(t *testing.T) {
	s := open(t, nil)
	s.create("net-00000003", cloud.Network{CIDR: "10.0.0.0/16"}) // somebody was here before
	s.must(s.SetBehaviour(cloud.TypeNetwork, cloud.Behaviour{Naming: cloud.ProviderAssigned}))
	var got []string
	for range 3 {
		k := s.create("Main network", cloud.Network{CIDR: "10.0.0.0/16"})
		got = append(got, k.ID)
	}
	if diff := cmp.Diff([]string{"net-00000002", "net-00000004", "net-00000005"}, got); diff != "" {
		t.Error(diff)
	}
	s.create("", cloud.Network{CIDR: "10.0.0.0/16"})
}

func TestTokens(t *testing.T) {
	honoured := cloud.Behaviour{Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, CreateTime: time.Minute, Forget: time.Minute}
	cases := map[string]struct {
		behaviour cloud.Behaviour
		wait      time.Duration
		change    func(*cloud.CreateRequest)
		same      bool
		code      cloud.Code
	}{
		"Within its time a token gives the same resource": {behaviour: honoured, wait: time.Hour - 1, same: true},
		"After it a token is as good as new":              {behaviour: honoured, wait: time.Hour},
		"A cloud may take no notice of tokens":            {behaviour: cloud.Behaviour{Naming: cloud.ProviderAssigned}},
		"The same token with other properties is a mistake": {behaviour: honoured, code: cloud.IdempotencyMismatch,
			change: func(r *cloud.CreateRequest) { r.Properties = cloud.Bucket{Public: true} }},
		"The same token with other tags is a mistake": {behaviour: honoured, code: cloud.IdempotencyMismatch,
			change: func(r *cloud.CreateRequest) { r.Tags = map[string]string{"a": "2"} }},
		"Another scope has its own tokens": {behaviour: honoured,
			change: func(r *cloud.CreateRequest) { r.Scope = "eu-north-1/prod" }},
		"Another type has its own tokens": {behaviour: honoured,
			change: func(r *cloud.CreateRequest) { r.Properties = cloud.Role{Trust: "x"} }},
		"No token is no token": {behaviour: honoured,
			change: func(r *cloud.CreateRequest) { r.Token = "" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, map[cloud.Type]cloud.Behaviour{cloud.TypeBucket: tc.behaviour, cloud.TypeRole: tc.behaviour})
			ask := cloud.CreateRequest{Scope: scope, Name: "logs", Tags: map[string]string{"a": "1"}, Properties: cloud.Bucket{}, Token: "t1"}
			first, err := s.Create(ask)
			s.must(err)
			s.wait(tc.wait)
			s.kill()
			if tc.change != nil {
				tc.change(&ask)
			}
			second, err := s.Create(ask)
			if cloud.CodeOf(err) != tc.code {
				t.Fatalf("want %q, got %v", tc.code, err)
			}
			if same := err == nil && first.ID == second.ID; same != tc.same {
				t.Errorf("first %+v, then %+v", first, second)
			}
			if tc.same && second.Status != cloud.Succeeded {
				t.Errorf("the operation is %s by now", second.Status)
			}
		})
	}
}

func TestTokensOfChangesAndDeletionsAreHonouredToo(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{TokenTTL: time.Hour}))
	k := s.create("logs", cloud.Bucket{})
	change := cloud.UpdateRequest{Key: k, IfMatch: s.get(k).Version, Properties: cloud.Bucket{Public: true}, Token: "u"}
	first, err := s.Update(change)
	s.must(err)
	again, err := s.Update(change) // the version is an old one by now
	s.must(err)
	end := cloud.DeleteRequest{Key: k, Token: "d"}
	gone, err := s.Delete(end)
	s.must(err)
	s.create("logs", cloud.Bucket{})
	still, err := s.Delete(end) // it doesn't hit the new one of the name
	s.must(err)
	if first.ID != again.ID || gone.ID != still.ID || s.state(k) != cloud.Active {
		t.Errorf("%s %s, %s %s, %q", first.ID, again.ID, gone.ID, still.ID, s.state(k))
	}
	_, err = s.Delete(cloud.DeleteRequest{Key: k, Token: "u"})
	s.refused(err, cloud.IdempotencyMismatch)
}

func TestWhatIsForgottenIsDroppedFromDiskAndNothingElse(t *testing.T) {
	s := open(t, map[cloud.Type]cloud.Behaviour{
		cloud.TypeBucket: {TokenTTL: time.Hour, Forget: time.Minute}, cloud.TypeRole: {CreateTime: 2 * time.Hour, Forget: time.Minute},
	})
	with := cloud.CreateRequest{Scope: scope, Name: "a", Properties: cloud.Bucket{}, Token: "t"}
	kept, err := s.Create(with)
	s.must(err)
	without, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "b", Properties: cloud.Bucket{}})
	s.must(err)
	running, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "c", Properties: cloud.Role{Trust: "x"}})
	s.must(err)
	anew := func(gone string) {
		t.Helper()
		s.kill()
		s.Shorten(1)
		s.must(s.ClearFaults()) // anything that is written will do
		ledger, err := os.ReadFile(filepath.Join(s.dir, "ledger"))
		s.must(err)
		if strings.Contains(string(ledger), gone) {
			t.Errorf("%s is there still", gone)
		}
		s.kill()
	}
	s.wait(time.Hour - 1)
	anew(`"number":2,`)
	again, err := s.Create(with)
	s.must(err)
	if again.ID != kept.ID || s.status(kept) != cloud.Succeeded || s.status(running) != cloud.Running {
		t.Errorf("%+v", again)
	}
	_, err = s.GetOperation(without.ID)
	s.refused(err, cloud.NotFound)
	s.wait(1)
	anew(`"token":"t"`)
	_, err = s.GetOperation(kept.ID)
	s.refused(err, cloud.NotFound)
	_, err = s.Create(with)
	s.refused(err, cloud.AlreadyExists)
	s.wait(time.Hour)
	if s.status(running) != cloud.Succeeded || len(s.truth().Resources) != 3 {
		t.Errorf("%+v", s.truth())
	}
}

func TestARefusedCallUsesUpNoToken(t *testing.T) {
	s := open(t, only(cloud.TypeSubnet, cloud.Behaviour{TokenTTL: time.Hour}))
	ask := cloud.CreateRequest{Scope: scope, Name: "a", Properties: cloud.Subnet{Network: "net", CIDR: "10.0.0.0/24"}, Token: "t"}
	_, err := s.Create(ask)
	s.refused(err, cloud.NotFound)
	s.create("net", cloud.Network{CIDR: "10.0.0.0/16"})
	_, err = s.Create(ask)
	s.must(err)
}

func TestTagging(t *testing.T) {
	tags := map[string]string{"mark": "m"}
	cases := map[string]struct {
		tagging           cloud.Tagging
		create, find      cloud.Code
		onGet, onListings map[string]string
	}{
		"Tags may be found by":     {cloud.TagsFindable, "", "", tags, tags},
		"Tags may be shown by Get": {cloud.TagsShown, "", cloud.InvalidParameter, tags, nil},
		"There may be no tags":     {cloud.TagsNone, cloud.InvalidParameter, cloud.InvalidParameter, nil, nil},
		"What isn't said is found": {"", "", "", tags, tags},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, only(cloud.TypeBucket, cloud.Behaviour{Tags: tc.tagging}))
			op, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "marked", Tags: tags, Properties: cloud.Bucket{}})
			if cloud.CodeOf(err) != tc.create {
				t.Fatal(err)
			}
			s.create("other", cloud.Bucket{})
			found, err := s.List(cloud.Query{Type: cloud.TypeBucket, Tags: tags})
			if cloud.CodeOf(err) != tc.find || err == nil && (len(found) != 1 || found[0].ID != "marked") {
				t.Errorf("found %v, %v", found, err)
			}
			if tc.create != "" {
				return
			}
			listed, err := s.List(cloud.Query{Type: cloud.TypeBucket, Scope: scope})
			s.must(err)
			if diff := cmp.Diff(tc.onListings, listed[0].Tags) + cmp.Diff(tc.onGet, s.get(op.Resource).Tags); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTagsMayBeFixedAtCreation(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{TagsFixed: true}))
	op, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "logs", Tags: map[string]string{"a": "1"}, Properties: cloud.Bucket{}})
	s.must(err)
	_, err = s.Update(cloud.UpdateRequest{Key: op.Resource, Tags: map[string]string{}})
	s.refused(err, cloud.InvalidParameter)
	_, err = s.Update(cloud.UpdateRequest{Key: op.Resource, Tags: map[string]string{"a": "1"}, Properties: cloud.Bucket{Public: true}})
	s.must(err)
}

func TestReadsLagBehind(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateLag: 10 * time.Second, DeleteLag: 20 * time.Second}))
	k := s.create("logs", cloud.Bucket{})
	shown := func() string {
		t.Helper()
		all, err := s.List(cloud.Query{Type: cloud.TypeBucket})
		s.must(err)
		r, err := s.Get(k)
		if (err == nil) != (len(all) == 1) || err == nil && !cmp.Equal(r, all[0]) {
			t.Errorf("Get and List differ: %v, %v", r, all)
		}
		return r.Version
	}
	next := func(in time.Duration) {
		t.Helper()
		if due := s.NextChange(); !due.Equal(s.now.Add(in)) {
			t.Errorf("the next change is in %s", due.Sub(s.now))
		}
	}
	next(10 * time.Second)
	s.wait(10*time.Second - 1)
	if shown() != "" {
		t.Error("a new resource is shown at once")
	}
	_, err := s.Update(cloud.UpdateRequest{Key: k, Properties: cloud.Bucket{Public: true}})
	s.must(err) // changes see the truth
	s.wait(1)
	first := shown()
	if first == "" {
		t.Error("it isn't shown in time")
	}
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
	next(20 * time.Second)
	if s.state(k) != cloud.Active {
		t.Error("what is gone isn't shown any more, or as it was never seen")
	}
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.refused(err, cloud.NotFound)
	s.wait(5 * time.Second)
	s.create("logs", cloud.Bucket{})
	s.wait(10*time.Second - 1)
	s.kill()
	if r := s.get(k); r.Serial != 1 {
		t.Error("the successor is seen too early")
	}
	s.wait(1)
	if r := s.get(k); r.Serial != 2 {
		t.Error("the successor doesn't hide what was before")
	}
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
	s.wait(20*time.Second - 1)
	if shown() == "" {
		t.Error("what is gone is shown too short")
	}
	s.wait(1)
	if shown() != "" {
		t.Error("what is gone is shown too long")
	}
}

func TestASuccessorHidesItsPredecessorFromASearchToo(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{DeleteLag: time.Hour}))
	found := func() int {
		t.Helper()
		all, err := s.List(cloud.Query{Type: cloud.TypeBucket, Tags: map[string]string{"mark": "m"}})
		s.must(err)
		return len(all)
	}
	op, err := s.Create(logs)
	s.must(err)
	_, err = s.Delete(cloud.DeleteRequest{Key: op.Resource})
	s.must(err)
	if found() != 1 {
		t.Error("what is gone isn't found any more")
	}
	s.create("logs", cloud.Bucket{})
	if found() != 0 {
		t.Error("what is gone is found, and Get shows another")
	}
}

func TestWhatNobodyHasSeenIsNotShownAfterItsEnd(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateLag: time.Minute, DeleteLag: time.Minute}))
	k := s.create("logs", cloud.Bucket{})
	_, err := s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
	if s.state(k) != "" || !s.NextChange().IsZero() {
		t.Errorf("%q, %s", s.state(k), s.NextChange())
	}
}

func TestANameIsFreeOnlyAfterAWhile(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{ReuseAfter: time.Hour, DeleteTime: time.Minute}))
	k := s.create("logs", cloud.Bucket{})
	_, err := s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
	ask := cloud.CreateRequest{Scope: scope, Name: "logs", Properties: cloud.Bucket{}}
	_, err = s.Create(ask)
	s.refused(err, cloud.InvalidState)
	s.wait(time.Minute)
	_, err = s.Create(ask)
	if e := s.refusal(err, cloud.AlreadyExists); e.RetryAfter != time.Hour || s.state(k) != "" {
		t.Errorf("%+v", e)
	}
	s.wait(time.Hour - 1)
	s.kill()
	_, err = s.Create(ask)
	s.refused(err, cloud.AlreadyExists)
	s.wait(1)
	_, err = s.Create(ask)
	s.must(err)
}

func TestAScopeHoldsSoManyAndNoMore(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{Quota: 2, DeleteTime: time.Minute}))
	k := s.create("a", cloud.Bucket{})
	s.create("b", cloud.Bucket{})
	ask := cloud.CreateRequest{Scope: scope, Name: "c", Properties: cloud.Bucket{}}
	_, err := s.Create(ask)
	s.refused(err, cloud.QuotaExceeded)
	s.create("c", cloud.Role{Trust: "x"})
	_, err = s.Create(cloud.CreateRequest{Scope: "elsewhere", Name: "c", Properties: cloud.Bucket{}})
	s.must(err)
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
	_, err = s.Create(ask)
	s.refused(err, cloud.QuotaExceeded)
	s.wait(time.Minute)
	_, err = s.Create(ask)
	s.must(err)
}

func TestBehavioursStayAndMakeSense(t *testing.T) {
	s := open(t, only(cloud.TypeRole, cloud.Behaviour{Quota: 1}))
	want := cloud.Behaviour{Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, Tags: cloud.TagsShown, TagsFixed: true, Quota: 7}
	s.must(s.SetBehaviour(cloud.TypeBucket, want))
	s.kill()
	if got := s.Behaviour(cloud.TypeBucket); got != want {
		t.Errorf("got %+v", got)
	}
	if got := s.Behaviour(cloud.TypeRole); got.Quota != 1 {
		t.Errorf("got %+v", got)
	}
	for name, b := range map[string]cloud.Behaviour{
		"naming": {Naming: "Both"}, "tags": {Tags: "Some"}, "quota": {Quota: -1}, "duration": {DeleteLag: -1},
	} {
		if e := s.refusal(s.SetBehaviour(cloud.TypeBucket, b), cloud.InvalidParameter); e.Field != name {
			t.Errorf("%s: %v", name, e)
		}
	}
	s.refused(s.SetBehaviour("queue", cloud.Behaviour{}), cloud.InvalidParameter)
	_, err := cloud.Open(t.TempDir(), cloud.Options{Behaviours: only("queue", cloud.Behaviour{})})
	s.refused(err, cloud.InvalidParameter)
}
