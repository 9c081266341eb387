package watch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// serverEvent is one revision of the objects on the server.
type serverEvent struct {
	object   *unstructured.Unstructured
	gone     bool
	ours     bool
	answered bool
}

// followed is a namespace of three objects, whose every change is a revision, with
// a store that hears of them late by the watch and early by our own writes.
type followed struct {
	store     *store
	now       time.Time
	log       []serverEvent // the revision of log[i] is i+1
	delivered int           // how much of the log the watch has delivered
	live      map[string]*unstructured.Unstructured
	lives     int
	untold    map[string]bool // changed by others since everybody was last told
	answered  map[string]*unstructured.Unstructured
	waiting   []serverEvent // writes of ours whose answers are on their way
	alone     bool          // no other client writes
}

func (f *followed) happen(o *unstructured.Unstructured, gone, ours bool) *serverEvent {
	o.SetResourceVersion(fmt.Sprint(len(f.log) + 1))
	f.log = append(f.log, serverEvent{object: o, gone: gone, ours: ours})
	if gone {
		delete(f.live, o.GetName())
	} else {
		f.live[o.GetName()] = o
	}
	return &f.log[len(f.log)-1]
}

func (f *followed) write(name string, ours bool) *serverEvent {
	o := made(configMap, "a/"+name, 0, partOf, "me")
	if old := f.live[name]; old != nil {
		o.SetUID(old.GetUID())
	} else {
		delete(f.untold, name) // what was done to its dead namesake
		f.lives++
		o.SetUID(types.UID(fmt.Sprint("life ", f.lives)))
	}
	if !ours {
		f.untold[name] = true
	}
	return f.happen(o, false, ours)
}

func (f *followed) told(all []transition) {
	for _, t := range all {
		delete(f.untold, t.object().GetName())
	}
}

// deliver lets the watch catch up by one event.
func (f *followed) deliver(t *rapid.T) {
	if f.delivered == len(f.log) {
		return
	}
	h := f.log[f.delivered]
	f.delivered++
	take := f.store.observe
	if h.gone {
		take = f.store.observeDeletion
	}
	changes := take(h.object)
	f.told(changes)
	isLast := f.store.entries[nameOf(h.object)].revision <= revisionOf(h.object) // an older one may be that of another client
	if f.alone && h.answered && isLast && len(changes) > 0 {
		t.Fatalf("the echo of revision %d led to %v", f.delivered, changes)
	}
}

// list replaces the store by the world as of a revision, from which the watch
// goes on.
func (f *followed) list(at int) {
	items := map[string]*unstructured.Unstructured{}
	for _, h := range f.log[:at] {
		if h.gone {
			delete(items, h.object.GetName())
		} else {
			items[h.object.GetName()] = h.object
		}
	}
	changes, _ := f.store.replace(slices.Collect(maps.Values(items)), uint64(at), f.now)
	f.told(changes)
	f.delivered = at
}

func (f *followed) contents() map[string]string {
	out := map[string]string{}
	for name, e := range f.store.entries {
		out[name.name] = e.object.GetResourceVersion()
	}
	return out
}

// check finds what must hold at every moment.
func (f *followed) check(t *rapid.T) {
	grouped := 0
	for _, group := range f.store.owned {
		grouped += len(group)
		if !slices.IsSortedFunc(group, compareObjects) {
			t.Fatal("the objects of an owner aren't sorted")
		}
	}
	if grouped != len(f.store.entries) {
		t.Fatalf("%d objects are grouped of %d", grouped, len(f.store.entries))
	}
	for name, o := range f.answered {
		if live := f.live[name]; live == nil || live.GetUID() != o.GetUID() {
			continue
		}
		e := f.store.entries[nameOf(o)]
		if e.revision < revisionOf(o) {
			t.Fatalf("%s reads as of revision %d, after we wrote %s", name, e.revision, o.GetResourceVersion())
		}
	}
}

// checkCaughtUp finds what must hold once the watch has delivered everything.
func (f *followed) checkCaughtUp(t *rapid.T) {
	for f.delivered < len(f.log) {
		f.deliver(t)
	}
	want := map[string]string{}
	for name, o := range f.live {
		want[name] = o.GetResourceVersion()
	}
	if diff := cmp.Diff(want, f.contents()); diff != "" {
		t.Fatalf("the store differs from the server (-want +got):\n%s", diff)
	}
	for name := range f.untold {
		// The deletion of an object reports what others did to it before.
		if f.live[name] != nil {
			t.Fatalf("no subscriber was notified of the changes by others to %s", name)
		}
	}
}

func newFollowed(alone bool) *followed {
	return &followed{
		store: newStore(partOf), now: time.Unix(1e9, 0), alone: alone,
		live: map[string]*unstructured.Unstructured{}, untold: map[string]bool{},
		answered: map[string]*unstructured.Unstructured{},
	}
}

var someObject = rapid.SampledFrom([]string{"x", "y", "z"})

func (f *followed) weWrite(t *rapid.T) {
	f.waiting = append(f.waiting, *f.write(someObject.Draw(t, "name"), true))
}

func (f *followed) weDelete(t *rapid.T) {
	if old := f.live[someObject.Draw(t, "name")]; old != nil {
		f.waiting = append(f.waiting, *f.happen(old.DeepCopy(), true, true))
	}
}

// answer lets the answer to the i-th write that waits arrive.
func (f *followed) answer(i int) {
	h := f.waiting[i]
	f.waiting = slices.Delete(f.waiting, i, i+1)
	f.log[revisionOf(h.object)-1].answered = true
	if h.gone {
		f.store.recordDeletion(nameOf(h.object), uidOf(h.object), f.now)
		return
	}
	f.store.recordWrite(h.object, true, f.now)
	if old := f.answered[h.object.GetName()]; old == nil || revisionOf(old) < revisionOf(h.object) {
		f.answered[h.object.GetName()] = h.object
	}
}

func TestStoreConvergesToTheServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFollowed(false)
		t.Repeat(map[string]func(*rapid.T){
			"another client writes": func(t *rapid.T) { f.write(someObject.Draw(t, "name"), false) },
			"another client deletes": func(t *rapid.T) {
				if old := f.live[someObject.Draw(t, "name")]; old != nil {
					f.untold[old.GetName()] = true
					f.happen(old.DeepCopy(), true, false)
				}
			},
			"we write":  f.weWrite,
			"we delete": f.weDelete,
			"an answer arrives": func(t *rapid.T) {
				if len(f.waiting) > 0 {
					f.answer(rapid.IntRange(0, len(f.waiting)-1).Draw(t, "which"))
				}
			},
			"the watch delivers": f.deliver,
			"a relist":           func(t *rapid.T) { f.list(rapid.IntRange(f.delivered, len(f.log)).Draw(t, "revision")) },
			"time passes": func(t *rapid.T) {
				// The watch isn't late by more than what an answer is believed for.
				f.list(len(f.log))
				f.now = f.now.Add(time.Minute)
			},
			"": f.check,
		})
		f.checkCaughtUp(t)
	})
}

func TestStoreIgnoresEchoesOfOurWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFollowed(true)
		t.Repeat(map[string]func(*rapid.T){
			"we write":  f.weWrite,
			"we delete": f.weDelete,
			"an answer arrives": func(*rapid.T) {
				if len(f.waiting) > 0 {
					f.answer(0)
				}
			},
			"the watch delivers": f.deliver,
			"":                   f.check,
		})
		f.checkCaughtUp(t)
	})
}

func TestAWriteIsReadAtOnceAndItsEchoIgnored(t *testing.T) {
	s := newStore(partOf)
	now := time.Now()
	s.replace(nil, 10, now)
	if got := s.recordWrite(made(configMap, "a/x", 11), true, now); len(got) != 1 {
		t.Errorf("a new object leads to %d changes", len(got))
	}
	if got := s.recordWrite(made(configMap, "a/x", 12), true, now); len(got) != 1 {
		t.Errorf("a newer revision leads to %d changes", len(got))
	}
	if got := s.recordWrite(made(configMap, "a/x", 11), true, now); len(got) != 0 {
		t.Errorf("a late answer leads to %d changes", len(got))
	}
	if got := s.observe(made(configMap, "a/x", 11)); len(got) != 1 {
		t.Errorf("a revision before the last write, which another client may have written, leads to %d changes", len(got))
	}
	if got := s.observe(made(configMap, "a/x", 12)); len(got) != 0 {
		t.Errorf("the echo of the last write leads to %d changes", len(got))
	}
}

func TestAChangeBetweenOurWritesIsRouted(t *testing.T) {
	s := newStore(partOf)
	now := time.Now()
	s.replace([]*unstructured.Unstructured{made(configMap, "a/x", 10)}, 10, now)
	s.recordWrite(made(configMap, "a/x", 12), true, now)
	if got := s.observe(made(configMap, "a/x", 11)); len(got) != 1 || got[0].new.GetResourceVersion() != "12" {
		t.Errorf("another client's change before our write led to %v", got)
	}
}

func TestAListWinsExceptOverRecentWrites(t *testing.T) {
	at := time.Now()
	cases := map[string]struct {
		age      time.Duration
		revision uint64
		want     map[string]string
	}{
		"our write is newer than the list":                     {0, 15, map[string]string{"old": "3", "ours": "20"}},
		"the list is newer and doesn't have it":                {0, 25, map[string]string{"old": "3"}},
		"a write that the watch has not confirmed for a while": {time.Minute, 15, map[string]string{"old": "3"}},
		"a restored backup":                                    {time.Minute, 4, map[string]string{"old": "3"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStore(partOf)
			s.replace([]*unstructured.Unstructured{made(configMap, "a/old", 5), made(configMap, "a/gone", 6)}, 10, at)
			s.recordWrite(made(configMap, "a/ours", 20), true, at)
			s.replace([]*unstructured.Unstructured{made(configMap, "a/old", 3)}, c.revision, at.Add(c.age))
			f := followed{store: s}
			if diff := cmp.Diff(c.want, f.contents()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnEntryMissingFromAListExpires(t *testing.T) {
	s := newStore(partOf)
	at := time.Now()
	s.recordWrite(made(configMap, "a/ours", 20), true, at)
	if _, spared := s.replace(nil, 4, at); !spared {
		t.Fatal("our write is gone with the list")
	}
	if got := s.expire(at.Add(provisionalTTL)); len(got) != 1 || s.len() != 0 {
		t.Errorf("the entry still exists after %s", provisionalTTL)
	}
}

func TestAWriteThatLeavesTheSelectionDeletesTheEntry(t *testing.T) {
	s := newStore(partOf)
	at := time.Now()
	s.replace([]*unstructured.Unstructured{made(configMap, "a/x", 5, partOf, "o")}, 5, at)
	if got := s.recordWrite(made(configMap, "a/x", 8), false, at); len(got) != 1 || got[0].new != nil {
		t.Errorf("leaving the selection led to %v", got)
	}
	if got := s.observe(made(configMap, "a/x", 7, partOf, "o")); len(got) != 0 || s.len() != 0 {
		t.Error("an event in flight adds the entry again")
	}
	if got := s.observe(made(configMap, "a/x", 9, partOf, "o")); len(got) != 1 {
		t.Error("the entry is not added again")
	}
}

// TestWhetherADeletionOrphansIsRemembered lets the garbage collector remove the finalizer before a
// reconcile has read the object.
func TestWhetherADeletionOrphansIsRemembered(t *testing.T) {
	alive := func(uid, revision string, finalizers ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": uid, "resourceVersion": revision}}}
		o.SetFinalizers(finalizers)
		return o
	}
	deleted := func(uid, revision string, finalizers ...string) *unstructured.Unstructured {
		o := alive(uid, revision, finalizers...)
		o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
		return o
	}
	now := time.Unix(1e9, 0)
	list := func(s *store, revision uint64, o *unstructured.Unstructured) {
		s.replace([]*unstructured.Unstructured{o}, revision, now)
	}
	type answer struct{ orphaned, known bool }
	orphans, doesNot, unknown := answer{true, true}, answer{false, true}, answer{}
	steps := map[string]struct {
		then func(*store)
		uid  string
		want answer
	}{
		"no deletion":                      {func(s *store) { s.observe(alive("a", "2", "ours")) }, "a", unknown},
		"an event of the deletion":         {func(s *store) { s.observe(deleted("a", "2", "ours")) }, "a", doesNot},
		"the orphan finalizer is added":    {func(s *store) { s.observe(deleted("a", "2", "ours", "orphan")) }, "a", orphans},
		"the finalizer is removed again":   {func(s *store) { s.observe(deleted("a", "2", "ours", "orphan")); s.observe(deleted("a", "3", "ours")) }, "a", orphans},
		"it is added by a second deletion": {func(s *store) { s.observe(deleted("a", "2", "ours")); s.observe(deleted("a", "3", "ours", "orphan")) }, "a", orphans},
		"after our write and a list": {func(s *store) {
			s.observe(deleted("a", "2", "ours", "orphan"))
			s.recordWrite(deleted("a", "4", "ours"), true, now)
			list(s, 6, deleted("a", "5", "ours"))
		}, "a", orphans},
		"a list after the event":                        {func(s *store) { s.observe(deleted("a", "2", "ours")); list(s, 6, deleted("a", "5", "ours")) }, "a", doesNot},
		"a list in place of the event":                  {func(s *store) { list(s, 6, deleted("a", "5", "ours")); s.observe(deleted("a", "7", "ours")) }, "a", unknown},
		"a list in which the finalizer is":              {func(s *store) { list(s, 6, deleted("a", "5", "orphan")); s.observe(deleted("a", "7", "ours")) }, "a", orphans},
		"the answer to our write in place of the event": {func(s *store) { s.recordWrite(deleted("a", "4", "ours"), true, now) }, "a", unknown},
		"the answer, then the event": {func(s *store) {
			s.recordWrite(deleted("a", "4", "ours"), true, now)
			s.observe(deleted("a", "2", "ours"))
		}, "a", doesNot},
		"the answer, then the event with the finalizer": {func(s *store) {
			s.recordWrite(deleted("a", "4", "ours"), true, now)
			s.observe(deleted("a", "2", "ours", "orphan"))
		}, "a", orphans},
		"the answer, a list from before, then the event": {func(s *store) {
			s.recordWrite(deleted("a", "4", "ours"), true, now)
			list(s, 2, alive("a", "1", "ours"))
			s.observe(deleted("a", "3", "ours"))
		}, "a", doesNot},
		"the answer, a list from between, then its event": {func(s *store) {
			s.recordWrite(deleted("a", "4", "ours"), true, now)
			list(s, 3, deleted("a", "3", "ours"))
			s.observe(deleted("a", "4", "ours"))
		}, "a", unknown},
		"a backup from before the deletion is restored": {func(s *store) {
			s.observe(deleted("a", "2", "ours", "orphan"))
			list(s, 1, alive("a", "1", "ours"))
		}, "a", unknown},
		"another object gets the name": {func(s *store) { s.observe(deleted("a", "2", "ours", "orphan")); s.observe(alive("b", "3", "ours")) }, "b", unknown},
		"another object gets the name and is deleted": {func(s *store) {
			s.observe(deleted("a", "2", "orphan"))
			s.observeDeletion(deleted("a", "3"))
			s.observe(alive("b", "4", "ours"))
			s.observe(deleted("b", "5", "ours"))
		}, "b", doesNot},
	}
	for name, step := range steps {
		s := newStore(partOf)
		s.observe(alive("a", "1", "ours"))
		step.then(s)
		orphaned, known := s.wasOrphaned(objectName{name: "x"}, step.uid)
		if got := (answer{orphaned, known}); got != step.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func isOurs(finalizer string) bool { return finalizer == "ours" }

func TestDeletedDespiteFinalizersIsRemembered(t *testing.T) {
	at := func(uid, revision string, finalizers ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": uid, "resourceVersion": revision}}}
		o.SetFinalizers(finalizers)
		return o
	}
	deleting := at("a", "3", "ours")
	deleting.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	x := objectName{name: "x"}
	steps := map[string]struct {
		then func(*store)
		want string // UID; "" for none
	}{
		"its last state has no finalizer":        {func(s *store) { s.observeDeletion(at("a", "3")) }, ""},
		"its last state has our finalizer":       {func(s *store) { s.observeDeletion(at("a", "3", "ours")) }, "a"},
		"its last state has a foreign finalizer": {func(s *store) { s.observeDeletion(at("a", "3", "theirs")) }, ""},
		"it was being deleted":                   {func(s *store) { s.observeDeletion(deleting) }, ""},
		"an object of its name without finalizer is deleted later": {func(s *store) {
			s.observeDeletion(at("a", "3", "ours"))
			s.observe(at("b", "4"))
			s.observeDeletion(at("b", "5"))
		}, "a"},
		"an object of its name with our finalizer is deleted later": {func(s *store) {
			s.observeDeletion(at("a", "3", "ours"))
			s.observe(at("b", "4"))
			s.observeDeletion(at("b", "5", "ours"))
		}, "b"},
		"its state was forgotten": {func(s *store) { s.observeDeletion(at("a", "3", "ours")); s.forgetDeletedDespiteFinalizers(x) }, ""},
		"its kind is gone":        {func(s *store) { s.observeDeletion(at("a", "3", "ours")); s.clear() }, ""},
	}
	for name, step := range steps {
		s := newStore(partOf)
		s.keepIfDeletedWith = isOurs
		s.observe(at("a", "1"))
		s.observe(at("a", "2", "ours"))
		step.then(s)
		got := ""
		if last := s.getDeletedDespiteFinalizers(x); last != nil {
			got = uidOf(last)
		}
		if got != step.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestManyAreDeletedDespiteFinalizers deletes more objects than a reconciler handles at once, as
// the deletion of a namespace does.
func TestManyAreDeletedDespiteFinalizers(t *testing.T) {
	const count = 1000
	s := newStore(partOf)
	s.keepIfDeletedWith = isOurs
	for i := range count {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": strconv.Itoa(i), "uid": strconv.Itoa(i), "resourceVersion": strconv.Itoa(2*i + 1)}}}
		o.SetFinalizers([]string{"ours"})
		s.observe(o)
		last := o.DeepCopy()
		last.SetResourceVersion(strconv.Itoa(2*i + 2))
		s.observeDeletion(last)
	}
	for i := range count {
		name := objectName{name: strconv.Itoa(i)}
		if s.getDeletedDespiteFinalizers(name) == nil {
			t.Fatalf("the last state of object %d of %d is lost", i, count)
		}
		s.forgetDeletedDespiteFinalizers(name)
	}
	if len(s.deletedDespiteFinalizers) > 0 {
		t.Errorf("%d states are kept for no reader", len(s.deletedDespiteFinalizers))
	}
}

// TestOnlyWholeKindsKeepDeletedObjects is about objects that leave a selection with their
// finalizers: they still exist.
func TestOnlyWholeKindsKeepDeletedObjects(t *testing.T) {
	env := &environment{Config: Config{KeepIfDeletedWith: isOurs}}
	for selection, want := range map[Selection]bool{All(): true, Managed(): false, One("ns", "x"): false} {
		if a := newActor(env, &kind{}, selection); (a.store.keepIfDeletedWith != nil) != want {
			t.Errorf("%s: want %t", selection.class(), want)
		}
	}
}
