package watch

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestARecordedWriteWakesAllButTheWriter(t *testing.T) {
	maps := newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("writer", ChildrenOf(configMap, "o"))
		s.commit("reader", Child(configMap, "a", "x"))
		synctest.Wait()
		s.recorder.take()

		o := maps.write(made(configMap, "a/x", 0, partOf, "o"))
		s.Record(o, subscriberOf("writer"))
		s.expect(t, "an answer", "reader: Added ConfigMap a/x")
		if got := s.Owned(configMap, "o"); len(got) != 1 {
			t.Error("what was written isn't read")
		}
		maps.deliver(apiwatch.Added, o)
		s.expect(t, "its echo")

		foreign := maps.write(made(configMap, "a/x", 0, partOf, "o"))
		s.Record(maps.write(made(configMap, "a/x", 0, partOf, "o")), subscriberOf("writer"))
		s.expect(t, "another answer", "reader: Updated ConfigMap a/x")
		maps.deliver(apiwatch.Modified, foreign)
		s.expect(t, "another client's change before our write",
			"reader: Updated ConfigMap a/x", "writer: Updated ConfigMap a/x")

		s.RecordGone(configMap, "a", "x", uidOf(o), subscriberOf("writer"))
		s.expect(t, "a completed deletion", "reader: Deleted ConfigMap a/x")
		maps.deliver(apiwatch.Modified, foreign)
		s.expect(t, "an event that was under way")
		if _, ok := s.Get(configMap, "a", "x"); ok {
			t.Error("it is back")
		}
	})
}

func TestARecordedObjectOutsideTheSelectionIsNotStored(t *testing.T) {
	maps := newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", Child(configMap, "a", "x"))
		synctest.Wait()
		s.recorder.take()
		s.Record(maps.write(made(configMap, "a/x", 0)), subscriberOf("other"))
		s.expect(t, "an object without the label")
		s.Record(made(vpc, "a/x", 500), subscriberOf("other")) // an unwatched kind
	})
}

func TestARecordSurvivesTheFirstList(t *testing.T) {
	maps := newScript()
	maps.hang = true
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("i", ChildrenOf(configMap, "o"))
		synctest.Wait()
		s.Record(made(configMap, "a/x", 101, partOf, "o"), subscriberOf("i"))
		maps.mu.Lock()
		maps.hang = false // and list as of revision 100
		maps.mu.Unlock()
		s.KindChanged(configMap.GroupKind(), KindUpdated) // ends the hanging request
		s.expectState(t, configMap, Managed(), Synced, "")
		if _, ok := s.Get(configMap, "a", "x"); !ok {
			t.Error("a list from before the write removed it")
		}
	})
}

func TestAnEchoBeforeTheAnswerWakesTheWriterOnce(t *testing.T) {
	maps := newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("writer", ChildrenOf(configMap, "o"))
		s.commit("reader", Child(configMap, "a", "x"))
		synctest.Wait()
		s.recorder.take()

		o := maps.put(made(configMap, "a/x", 0, partOf, "o"))
		s.expect(t, "the watch is faster", "reader: Added ConfigMap a/x", "writer: Added ConfigMap a/x")
		s.Record(o, subscriberOf("writer"))
		s.expect(t, "the answer is known")

		maps.remove("a", "x")
		s.expect(t, "a deletion that came first", "reader: Deleted ConfigMap a/x", "writer: Deleted ConfigMap a/x")
		s.RecordGone(configMap, "a", "x", uidOf(o), subscriberOf("writer"))
		s.expect(t, "its answer is known")
	})
}

// TestAChangeBetweenOwnWritesWakesTheWriter delivers the change of another client after the answer to a later write, which
// contains it: the writer may have looked at that answer for its own change alone.
func TestAChangeBetweenOwnWritesWakesTheWriter(t *testing.T) {
	maps := newScript()
	withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
		s.commit("writer", ChildrenOf(configMap, "o"))
		synctest.Wait()
		s.recorder.take()
		write := func() *unstructured.Unstructured {
			o := maps.write(made(configMap, "a/x", 0, partOf, "o"))
			s.Record(o, subscriberOf("writer"))
			return o
		}
		first := write()
		maps.deliver(apiwatch.Added, first)
		s.expect(t, "the echo of the first write")
		between := maps.write(made(configMap, "a/x", 0, partOf, "o", "changed", "yes"))
		last := write()
		maps.deliver(apiwatch.Modified, between)
		s.expect(t, "the change of another client", "writer: Updated ConfigMap a/x")
		maps.deliver(apiwatch.Modified, last)
		s.expect(t, "the echo of the last write")
	})
}

func TestAnInstancesOwnWritesDoNotWakeIt(t *testing.T) {
	sc := newScript(made(vpc, "default/x", 1))
	withScriptedHub(t, scripts{vpc: sc}, func(t *testing.T, s *scriptedHub) {
		kindWatch := s.WatchKind(vpc, func(k object.Key, c Cause) { s.recorder.enqueue(Subscriber{k}, c) })
		defer kindWatch.Stop()
		s.commit("parent", Child(vpc, "default", "x"))
		synctest.Wait()
		s.recorder.take()

		own := sc.write(made(vpc, "default/x", 0))
		s.Record(own, subscriberOf("x"))
		sc.deliver(apiwatch.Modified, own)
		s.expect(t, "its status write", "parent: Updated Vpc default/x")
		sc.put(made(vpc, "default/x", 0))
		s.expect(t, "another client's write", "parent: Updated Vpc default/x", "x: Updated Vpc default/x")
	})
}
