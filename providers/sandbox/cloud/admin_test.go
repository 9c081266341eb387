package cloud_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

func TestSomebodyElseChangesThings(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{TagsFixed: true}))
	k := s.create("logs", cloud.Bucket{})
	before := s.get(k)
	s.must(s.Admin().Retag(k, map[string]string{"mark": "theirs"}))
	s.must(s.Admin().Change(k, cloud.Bucket{Public: true}))
	s.must(s.Admin().Fill(k, 2))
	s.kill()
	after := s.get(k)
	want := before
	want.Tags, want.Properties, want.Outputs.Objects, want.Version = map[string]string{"mark": "theirs"}, cloud.Bucket{Public: true}, 2, "1.5"
	if diff := cmp.Diff(want, after); diff != "" {
		t.Error(diff)
	}
	no := cloud.Key{Type: cloud.TypeBucket, Scope: scope, ID: "no"}
	s.refused(s.Admin().Retag(no, nil), cloud.NotFound)
	s.refused(s.Admin().Retag(k, map[string]string{"": ""}), cloud.InvalidParameter)
	s.refused(s.Admin().Change(k, cloud.Role{Trust: "x"}), cloud.InvalidParameter)
	s.refused(s.Admin().Change(k, nil), cloud.InvalidParameter)
	s.refused(s.Admin().Fill(k, -1), cloud.InvalidParameter)
}

func TestSomebodyElseDeletesWhatIsWorkedOn(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{CreateTime: time.Hour}))
	op, err := s.Create(logs)
	s.must(err)
	s.wait(time.Minute)
	s.must(s.Admin().Delete(op.Resource))
	s.kill()
	end, err := s.GetOperation(op.ID)
	s.must(err)
	if end.Status != cloud.FailedOperation || end.Error.Code != cloud.NotFound || !end.Ended.Equal(s.now) || s.state(op.Resource) != "" {
		t.Errorf("%+v", end)
	}
	if !s.NextChange().IsZero() {
		t.Error("something is to change still")
	}
	_, err = s.Create(logs)
	s.must(err)
	s.wait(time.Hour)
	if s.state(op.Resource) != cloud.Active {
		t.Error("the end of the first operation has hit the second")
	}
}

func TestTheJournalTellsEffectsFromCalls(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{TokenTTL: time.Hour}))
	s.must(s.Inject(cloud.Fault{Refuse: cloud.Throttled}, cloud.Fault{Lose: cloud.Timeout}))
	for range 3 {
		_, _ = s.Create(logs) // refused, lost, replayed
		s.kill()
	}
	k := cloud.Key{Type: cloud.TypeBucket, Scope: scope, ID: "logs"}
	s.must(s.Admin().Retag(k, map[string]string{"mark": "theirs"}))
	_, err := s.Delete(cloud.DeleteRequest{Key: k})
	s.must(err)

	creates := s.log.Select(cloud.Did(cloud.VerbCreate), cloud.About(cloud.TypeBucket), cloud.Tagged("mark", "m"))
	if len(creates) != 3 || creates[0].Effect || !creates[1].Effect || creates[2].Effect || !creates[2].Replayed {
		t.Errorf("%+v", creates)
	}
	deletes := s.log.Select(cloud.Did(cloud.VerbDelete), cloud.HadEffect)
	want := []cloud.Entry{{
		At: began, Verb: cloud.VerbDelete, Key: k, Serial: 1, Tags: map[string]string{"mark": "theirs"}, Operation: "op-00000002", Effect: true,
	}}
	if diff := cmp.Diff(want, deletes); diff != "" {
		t.Error(diff)
	}
	if theirs := s.log.Select(func(e cloud.Entry) bool { return e.OutOfBand }); len(theirs) != 1 || theirs[0].Verb != cloud.VerbUpdate {
		t.Errorf("%+v", theirs)
	}
}

func TestTheJournalForgetsTheOldest(t *testing.T) {
	s := open(t, nil)
	s.log = cloud.NewJournal(10)
	s.kill()
	for n := range 105 {
		s.wait(1)
		_, err := s.List(cloud.Query{Type: cloud.TypeBucket})
		s.must(err)
		kept := s.log.Select()
		if want := n + 1 - s.log.Dropped(); len(kept) != want || len(kept) < min(n+1, 10) || len(kept) > 20 {
			t.Fatalf("after %d calls there are %d, and %d dropped", n+1, len(kept), s.log.Dropped())
		}
		if !kept[len(kept)-1].At.Equal(s.now) || !kept[0].At.Equal(s.now.Add(time.Duration(1-len(kept)))) {
			t.Fatal("those that are kept are not the latest")
		}
	}
}

func TestManyCallAtOnce(t *testing.T) {
	s := open(t, only(cloud.TypeBucket, cloud.Behaviour{Naming: cloud.ProviderAssigned, TokenTTL: time.Hour}))
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 20 {
				ask := logs
				ask.Token = string(rune('a' + i)) // each of eight has the same tokens
				op, err := s.Create(ask)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = s.Get(op.Resource)
				if err != nil {
					t.Error(err)
				}
				_, _ = s.List(cloud.Query{Type: cloud.TypeBucket})
				s.NextChange()
				_ = s.Admin().Fill(op.Resource, n)
			}
		})
	}
	all.Wait()
	if n := len(s.truth().Resources); n != 20 {
		t.Errorf("there are %d", n)
	}
	if n := len(s.log.Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect)); n != 20 {
		t.Errorf("%d creates had an effect", n)
	}
}
