package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/shard"
)

// ownersPart is a part by owners: the owner "7-x" is in slot 7. Subscribers have such names too.
type ownersPart struct {
	mu    sync.Mutex
	slots shard.Set
}

func (p *ownersPart) SlotOf(o *unstructured.Unstructured) (shard.Slot, bool) {
	return slotIn(o.GetLabels()[partOf])
}

func (p *ownersPart) SlotOfSubscriber(s Subscriber) shard.Slot {
	slot, _ := slotIn(s.Name)
	return slot
}

func slotIn(owner string) (shard.Slot, bool) {
	text, _, found := strings.Cut(owner, "-")
	n, err := strconv.Atoi(text)
	return shard.Slot(n), found && err == nil //nolint:gosec // G115: tests have small numbers
}

func (p *ownersPart) Slots() shard.Set {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slots
}

func (p *ownersPart) set(slots ...shard.Slot) { p.replace(slotsOf(slots...)) }

func (p *ownersPart) replace(slots shard.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = slots
}

func slotsOf(slots ...shard.Slot) (out shard.Set) {
	for _, slot := range slots {
		out = out.With(slot)
	}
	return out
}

// withDividedHub is withScriptedHub for a replica that is assigned some slots.
func withDividedHub(t *testing.T, maps *script, test func(t *testing.T, s *scriptedHub, assign func(...shard.Slot)), slots ...shard.Slot) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, p := newScriptedHub(scripts{configMap: maps}), &ownersPart{slots: slotsOf(slots...)}
		s.env.Part = p
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		test(t, s, func(slots ...shard.Slot) {
			p.set(slots...)
			s.PartChanged()
			synctest.Wait()
		})
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// children reads as a subscriber of that name does, and commits.
func (s *scriptedHub) children(owner string) (names []string, phase Phase) {
	l := s.BeginWithinQuota(subscriberOf(owner))
	defer l.Commit()
	found, state := l.Children(configMap, owner)
	for _, o := range found {
		names = append(names, o.GetName())
	}
	return names, state.Phase
}

func (s *scriptedHub) expectChildren(t *testing.T, owner string, phase Phase, want ...string) {
	t.Helper()
	synctest.Wait()
	got, in := s.children(owner)
	if diff := cmp.Diff(want, got); diff != "" || in != phase {
		t.Errorf("children of %s are %q (%s), want %q (%s)", owner, got, in, want, phase)
	}
}

func (s *scriptedHub) expectCached(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	found, _ := s.actorFor(configMap, Managed()).store.list(everything)
	var got []string
	for _, o := range found {
		got = append(got, o.GetName())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the cache (-want +got):\n%s", diff)
	}
}

func threeChildren() *script {
	return newScript(made(configMap, "a/one", 1, partOf, "1-x"), made(configMap, "a/two", 2, partOf, "2-x"), made(configMap, "b/unknown", 3, partOf, "unknown"))
}

func TestAReplicaCachesItsPart(t *testing.T) {
	maps := threeChildren()
	withDividedHub(t, maps, func(t *testing.T, s *scriptedHub, _ func(...shard.Slot)) {
		s.children("1-x")
		s.expectCached(t, "one", "unknown")
		s.expectChildren(t, "1-x", Synced, "one")
		s.expectChildren(t, "2-x", Syncing)
		s.recorder.take()

		maps.put(made(configMap, "a/other", 0, partOf, "2-x"))
		maps.put(made(configMap, "a/own", 0, partOf, "1-x"))
		s.expect(t, "an event of the part", "1-x: Added ConfigMap a/own")
		s.expectCached(t, "one", "own", "unknown")
		maps.put(made(configMap, "a/own", 0, partOf, "2-x"))
		s.expect(t, "an object of another owner, and so of another part", "1-x: Deleted ConfigMap a/own")
		maps.remove("a", "other")
		s.expect(t, "an event of another part")
		s.expectCached(t, "one", "unknown")

		s.Record(made(configMap, "a/written", 1000, partOf, "2-x"), Subscriber{})
		s.Record(made(configMap, "a/written-here", 1001, partOf, "1-x"), Subscriber{})
		s.expectCached(t, "one", "written-here", "unknown")
		// An event whose object has left the part between its arrival and here.
		s.actorFor(configMap, Managed()).store.observe(made(configMap, "a/late", 1002, partOf, "2-x"))
		s.expectCached(t, "one", "written-here", "unknown")
	}, 1)
}

// TestOtherSelectionsAreNotDivided reads what is not managed: references to it are of any namespace.
func TestOtherSelectionsAreNotDivided(t *testing.T) {
	maps := threeChildren()
	withDividedHub(t, maps, func(t *testing.T, s *scriptedHub, _ func(...shard.Slot)) {
		w := s.WatchKind(configMap, ignoreEvents)
		defer w.Stop()
		synctest.Wait()
		if _, found := s.GetCached(configMap, "a", "two"); !found {
			t.Error("a KindWatch has no object of another part")
		}
		s.expectChildren(t, "2-x", Synced, "two")
	}, 1)
}

func TestNothingIsListedBeforeAReplicaHasItsPart(t *testing.T) {
	maps := threeChildren()
	withDividedHub(t, maps, func(t *testing.T, s *scriptedHub, assign func(...shard.Slot)) {
		s.children("1-x")
		s.KindChanged(configMap.GroupKind(), KindUpdated) // it wakes the actor
		pass(time.Minute)
		if maps.lists != 0 {
			t.Errorf("listed %d times without a slot", maps.lists)
		}
		assign(1)
		s.expectChildren(t, "1-x", Synced, "one")
		if maps.lists != 1 {
			t.Errorf("listed %d times", maps.lists)
		}
		assign() // it has lost the others, and joins them again
		s.expectCached(t, "unknown")
		assign(1)
		s.expectChildren(t, "1-x", Synced, "one")
	})
}

func TestSlotsMoveBetweenReplicas(t *testing.T) {
	maps := threeChildren()
	withDividedHub(t, maps, func(t *testing.T, s *scriptedHub, assign func(...shard.Slot)) {
		s.children("1-x")
		s.children("2-x")
		s.commit("1-reads-by-name", Child(configMap, "a", "two"))
		synctest.Wait()
		s.recorder.take()

		assign(1, 2)
		s.expect(t, "a takeover", "1-reads-by-name: Added ConfigMap a/two", "2-x: Added ConfigMap a/two", "2-x: KindState ConfigMap ")
		s.expectChildren(t, "2-x", Synced, "two")
		if got := maps.lists; got != 2 {
			t.Errorf("listed %d times", got)
		}
		s.recorder.take()

		assign(1)
		s.expect(t, "objects that leave were not deleted, and one who has read them by name reads them elsewhere", "1-reads-by-name: Resync ConfigMap a/two")
		s.expectChildren(t, "2-x", Syncing)
		s.expectChildren(t, "1-x", Synced, "one")
		s.expectCached(t, "one", "unknown")
		if got := maps.lists; got != 2 {
			t.Errorf("%d lists, although no slot was added", got)
		}
	}, 1)
}

// TestATakeoverWaitsForTheList takes a slot while the API server does not answer.
func TestATakeoverWaitsForTheList(t *testing.T) {
	maps := threeChildren()
	withDividedHub(t, maps, func(t *testing.T, s *scriptedHub, assign func(...shard.Slot)) {
		s.children("1-x")
		synctest.Wait()
		maps.setHanging(true)
		assign(1, 2)
		s.expectChildren(t, "2-x", Syncing)
		s.expectChildren(t, "1-x", Synced, "one")
		assign(1, 2, 3) // this ends the request
		s.expectChildren(t, "2-x", Syncing)
		maps.setHanging(false)
		assign(1, 2)
		s.expectChildren(t, "2-x", Syncing)
		assign(1, 2, 3)
		s.expectChildren(t, "2-x", Synced, "two")
		s.expectChildren(t, "3-x", Synced)
	}, 1)
}

// dividedStore is the store of a replica, and the API server whose objects it follows. The watch delivers late, and
// slots come and go at any time.
type dividedStore struct {
	sink
	log       []serverEvent                           // the revision of log[i] is i+1
	live      []map[string]*unstructured.Unstructured // after each revision
	delivered int
	list      *arrivedList // its items have arrived, and it is not stored
}

type arrivedList struct {
	revision int
	items    []any
}

// happen changes an object, or deletes it if it has no owner.
func (d *dividedStore) happen(name, owner string) {
	next := map[string]*unstructured.Unstructured{}
	if n := len(d.live); n > 0 {
		maps.Copy(next, d.live[n-1])
	}
	e := serverEvent{object: made(configMap, "a/"+name, len(d.log)+1, partOf, owner)}
	if owner == "" {
		before := next[name]
		if before == nil {
			return
		}
		e = serverEvent{object: before.DeepCopy(), gone: true}
		e.object.SetResourceVersion(fmt.Sprint(len(d.log) + 1))
		delete(next, name)
	} else {
		next[name] = e.object
	}
	d.log, d.live = append(d.log, e), append(d.live, next)
}

// deliver delivers an event, unless there is a list: a session does one or the other.
func (d *dividedStore) deliver() {
	if d.delivered == len(d.log) || d.list != nil {
		return
	}
	e := d.log[d.delivered]
	d.delivered++
	if e.gone {
		_ = d.Delete(e.object) // none of these fails
	} else {
		_ = d.Update(e.object)
	}
}

// arrive lets a list arrive, as the transformer leaves it.
func (d *dividedStore) arrive() {
	d.list = &arrivedList{revision: len(d.log)}
	if len(d.live) == 0 {
		return
	}
	for _, o := range d.live[len(d.live)-1] {
		item, _ := d.Transformer()(o)
		d.list.items = append(d.list.items, item)
	}
}

func (d *dividedStore) replaceAll() {
	if d.list != nil {
		_ = d.Replace(d.list.items, fmt.Sprint(d.list.revision))
		d.delivered, d.list = d.list.revision, nil
	}
}

// check compares what the store has with what the API server had.
func (d *dividedStore) check(t *rapid.T) {
	var live map[string]*unstructured.Unstructured
	if d.delivered > 0 {
		live = d.live[d.delivered-1]
	}
	slots := d.store.slots
	for i := range shard.Slot(4) {
		owner := fmt.Sprintf("%d-x", i)
		got, complete := d.store.ownedBy(owner, i)
		if complete && !slots.Has(i) {
			t.Fatalf("slot %d is complete outside of the part", i)
		}
		if !slots.Has(i) && len(got) > 0 {
			t.Fatalf("slot %d is not in the part, and has %d objects", i, len(got))
		}
		if !complete {
			continue
		}
		var want, have []string
		for name, o := range live {
			if o.GetLabels()[partOf] == owner {
				want = append(want, name+" at "+o.GetResourceVersion())
			}
		}
		for _, o := range got {
			have = append(have, o.GetName()+" at "+o.GetResourceVersion())
		}
		slices.Sort(want)
		slices.Sort(have)
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("slot %d, after revision %d (-want +got):\n%s", i, d.delivered, diff)
		}
	}
}

// TestAStoreIsCompleteForWhatItCovers lets slots come and go while lists and events arrive: of what the store says that
// it is complete, it has exactly what the API server had at the revision up to which it was delivered.
func TestAStoreIsCompleteForWhatItCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &ownersPart{slots: slotsOf(0, 1)}
		d := &dividedStore{sink: sink{New(Config{ManagedLabel: partOf, Part: p}).acquire(configMap, Managed())}}
		t.Repeat(map[string]func(*rapid.T){
			"happen": func(t *rapid.T) {
				owner := rapid.SampledFrom([]string{"0-x", "1-x", "2-x", "3-x", ""}).Draw(t, "owner")
				d.happen(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "object"), owner)
			},
			"deliver": func(*rapid.T) { d.deliver() },
			"arrive":  func(*rapid.T) { d.arrive() },
			"replace": func(*rapid.T) { d.replaceAll() },
			"assign": func(t *rapid.T) {
				var slots shard.Set
				for i := range shard.Slot(4) {
					if rapid.Bool().Draw(t, fmt.Sprint("slot ", i)) {
						slots = slots.With(i)
					}
				}
				p.replace(slots)
				d.store.setSlots(slots)
			},
			"": d.check,
		})
		// Once a list has begun after the last change, all of the part is complete.
		d.replaceAll()
		d.arrive()
		d.replaceAll()
		d.check(t)
		for slot := range p.Slots().All() {
			if !d.store.completeFor(slot) {
				t.Fatalf("slot %d is not complete after a list", slot)
			}
		}
	})
}

// setHanging makes requests neither answer nor fail, or answer again, and ends the watches.
func (s *script) setHanging(hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = hang
}
