package cloud_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

func TestAResourceIsAsItWasAskedFor(t *testing.T) {
	s := open(t, nil)
	op, err := s.Create(cloud.CreateRequest{
		Scope: scope, Name: "logs", Tags: map[string]string{"mark": "m1"}, Properties: cloud.Bucket{Versioning: true},
	})
	s.must(err)
	key := cloud.Key{Type: cloud.TypeBucket, Scope: scope, ID: "logs"}
	if diff := cmp.Diff(cloud.Operation{
		ID: "op-00000001", Verb: cloud.VerbCreate, Resource: key, Serial: 1, Status: cloud.Succeeded, Started: began, Ended: began,
	}, op); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(cloud.Resource{
		Key: key, Name: "logs", Serial: 1, Tags: map[string]string{"mark": "m1"}, Properties: cloud.Bucket{Versioning: true},
		State: cloud.Active, Created: began, Version: "1.2",
		Outputs: cloud.Outputs{URL: "https://logs.bucket.dev.eu-north-1.sandbox.internal"},
	}, s.get(key)); diff != "" {
		t.Error(diff)
	}
}

func TestACreationTakesItsTime(t *testing.T) {
	s := open(t, nil)
	_, a, _, role, _ := s.estate()
	s.must(s.SetBehaviour(cloud.TypeCluster, cloud.Behaviour{CreateTime: 10 * time.Minute}))
	op, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "slow", Properties: cloud.Cluster{Subnets: []string{a.ID}, Role: role.ID}})
	s.must(err)
	if due := s.NextChange(); !due.Equal(began.Add(10 * time.Minute)) {
		t.Errorf("the next change is at %s", due)
	}
	s.wait(10*time.Minute - 1)
	if r := s.get(op.Resource); r.State != cloud.Creating || r.Outputs != (cloud.Outputs{}) || s.status(op) != cloud.Running {
		t.Errorf("before its time: %+v", r)
	}
	s.wait(1)
	r := s.get(op.Resource)
	if r.State != cloud.Active || r.Outputs.Endpoint != "https://slow.cluster.dev.eu-north-1.sandbox.internal" || s.status(op) != cloud.Succeeded {
		t.Errorf("in time: %+v", r)
	}
	block, _ := pem.Decode([]byte(r.Outputs.Certificate))
	if block == nil {
		t.Fatal("the certificate is no PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	s.must(err)
	s.must(certificate.VerifyHostname("slow.cluster.dev.eu-north-1.sandbox.internal"))
	if !s.NextChange().IsZero() {
		t.Error("something is to change still")
	}
}

func TestAnUpdateComesIntoForceAtItsEnd(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{UpdateTime: time.Minute}))
	k := s.create("logs", cloud.Bucket{})
	before := s.get(k)
	op, err := s.Update(cloud.UpdateRequest{Key: k, Properties: cloud.Bucket{Public: true}, Tags: map[string]string{"team": "a"}})
	s.must(err)
	during := s.get(k)
	if during.State != cloud.Updating || during.Properties != (cloud.Bucket{}) || during.Tags["team"] != "a" || during.Version == before.Version {
		t.Errorf("during: %+v", during)
	}
	_, err = s.Update(cloud.UpdateRequest{Key: k, Tags: map[string]string{}})
	s.refused(err, cloud.InvalidState)
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.refused(err, cloud.InvalidState)
	s.wait(time.Minute)
	after := s.get(k)
	if after.State != cloud.Active || after.Properties != (cloud.Bucket{Public: true}) || after.Version == during.Version || s.status(op) != cloud.Succeeded {
		t.Errorf("after: %+v", after)
	}
}

func TestADeletionTakesItsTimeAndIsAskedForOnce(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{DeleteTime: time.Minute}))
	k := s.create("logs", cloud.Bucket{})
	first, err := s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
	second, err := s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)
	if first.ID != second.ID || s.state(k) != cloud.Deleting {
		t.Errorf("operations %s and %s, state %s", first.ID, second.ID, s.state(k))
	}
	_, err = s.Delete(cloud.DeleteRequest{Key: k, IfMatch: "1.2"})
	s.refused(err, cloud.PreconditionFailed)
	_, err = s.Create(cloud.CreateRequest{Scope: scope, Name: "logs", Properties: cloud.Bucket{}})
	s.refused(err, cloud.InvalidState)
	s.wait(time.Minute)
	_, err = s.Get(k)
	s.refused(err, cloud.NotFound)
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.refused(err, cloud.NotFound)
	if s.status(first) != cloud.Succeeded {
		t.Error("the operation isn't done")
	}
}

func TestAVersionThatIsNotCurrentIsRefused(t *testing.T) {
	s := open(t, nil)
	k := s.create("logs", cloud.Bucket{})
	old := s.get(k).Version
	_, err := s.Update(cloud.UpdateRequest{Key: k, IfMatch: old, Properties: cloud.Bucket{Public: true}})
	s.must(err)
	_, err = s.Update(cloud.UpdateRequest{Key: k, IfMatch: old, Properties: cloud.Bucket{}})
	s.refused(err, cloud.PreconditionFailed)
	_, err = s.Delete(cloud.DeleteRequest{Key: k, IfMatch: old})
	s.refused(err, cloud.PreconditionFailed)
	_, err = s.Delete(cloud.DeleteRequest{Key: k, IfMatch: s.get(k).Version})
	s.must(err)
	s.create("logs", cloud.Bucket{})
	_, err = s.Delete(cloud.DeleteRequest{Key: k, IfMatch: old})
	s.refused(err, cloud.PreconditionFailed) // its successor of the same name has versions of its own
}

func TestOperationsAreForgotten(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{Forget: time.Hour, CreateTime: time.Minute}))
	op, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "logs", Properties: cloud.Bucket{}})
	s.must(err)
	s.wait(time.Hour + time.Minute - 1)
	if s.status(op) != cloud.Succeeded {
		t.Error("forgotten too early")
	}
	s.wait(1)
	_, err = s.GetOperation(op.ID)
	s.refused(err, cloud.NotFound)
	_, err = s.GetOperation("op-99999999")
	s.refused(err, cloud.NotFound)
}

func TestAnAnswerIsTheCallersOwn(t *testing.T) {
	s := open(t, nil)
	tags, policies := map[string]string{"a": "1"}, []string{"read"}
	op, err := s.Create(cloud.CreateRequest{Scope: scope, Name: "r", Tags: tags, Properties: cloud.Role{Trust: "x", Policies: policies}})
	s.must(err)
	tags["a"], policies[0] = "2", "write"
	for range 2 {
		got := s.get(op.Resource)
		if got.Tags["a"] != "1" || got.Properties.(cloud.Role).Policies[0] != "read" {
			t.Errorf("somebody else has changed %+v", got)
		}
		got.Tags["a"], got.Properties.(cloud.Role).Policies[0] = "3", "all"
	}
}

func TestTimeNeverRunsBackwards(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateTime: time.Minute}))
	k := s.create("logs", cloud.Bucket{})
	s.wait(time.Minute)
	if s.state(k) != cloud.Active {
		t.Error("not in time")
	}
	s.now = began
	if s.state(k) != cloud.Active || !s.truth().At.Equal(began.Add(time.Minute)) {
		t.Error("time ran backwards")
	}
}

func TestWhatIsClosedIsUnavailable(t *testing.T) {
	s := open(t, nil)
	k := s.create("logs", cloud.Bucket{})
	s.must(s.Close())
	s.must(s.Close())
	_, err := s.Get(k)
	if e := s.refusal(err, cloud.Unavailable); !errors.Is(err, cloud.ErrClosed) || !e.Ambiguous() {
		t.Errorf("got %v", err)
	}
	_, err = s.Delete(cloud.DeleteRequest{Key: k})
	s.refused(err, cloud.Unavailable)
	if !s.NextChange().IsZero() {
		t.Error("something is to change")
	}
}
