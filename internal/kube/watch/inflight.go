package watch

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/tracing"
)

// Write makes one write to an object. When it returns, its answer is in the caches. Its
// echo does not wake the writer; concurrent changes by others do.
func (h *Hub) Write(o *unstructured.Unstructured, writer Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	done := h.BeginWrite(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), writer)
	defer done()
	answer, err := do()
	if err == nil {
		h.Record(answer, writer)
	}
	return answer, err
}

// BeginWrite announces a write to an object, because the watch often delivers its event before
// the answer: until done is called, events of the object do not wake the writer, nor do KindWatches report them if the writer
// is the object. Then the last of them that is not the echo of a recorded answer does, and is reported by each.
//
// Write is for callers that need no more than one write and its answer. The caller must call
// done, and soon; a second call does nothing.
func (h *Hub) BeginWrite(gvk schema.GroupVersionKind, namespace, name string, writer Subscriber) (done func()) {
	h.mu.RLock()
	k := h.kinds[gvk]
	h.mu.RUnlock()
	if k == nil {
		return func() {}
	}
	w := &write{name: objectName{namespace, name}, writer: writer}
	k.writes.begin(w, time.Now())
	return sync.OnceFunc(func() {
		for _, event := range k.writes.finish(w, time.Now()) {
			event.deliver(h.env.Tracer)
		}
	})
}

// inFlightWrites are the writes to a kind's objects that await their answers, and those that
// ended within the echo window. It is safe for concurrent use.
//
// Three mechanisms keep the echo of a write from its writer. Each covers a case that the others
// do not:
//
//   - The store (observeOlder) has the answer before the event. Its invariant: a state of an
//     object leads to one transition, whether an answer or the watch brings it first, and a
//     state that another client wrote between two of ours leads to one more. It holds for all
//     subscribers, however late the event is. Each store has revisions of its own, since each
//     watch delivers at its own time.
//   - An in-flight write (withhold, finish) has the event before the answer, when nothing
//     distinguishes an echo from a change by another client. Its invariant: between begin and
//     finish no event of the object wakes the writer; at finish the last event that is not an
//     own write wakes it, if there is one, and each KindWatch that reports its object. So no
//     change is lost, and none waits longer than the write.
//   - The echo window keeps the answers of a write that has ended, for an event that a store
//     received before and that is routed afterwards. Only cost depends on it: if it is too
//     short, the writer reconciles once more and finds nothing to do.
//
// An event that a store receives after the write has ended wakes the writer, also with its own
// answer: the store did not have that, so that the writer may have read an older state since.
// So does one that a list shows, at finish: what others wrote before the answer has no event of
// its own then.
type inFlightWrites struct {
	mu      sync.Mutex
	writes  map[objectName][]*write
	ended   []*write    // in order of time
	gcTimer *time.Timer // set while there are any
	// endings counts the writes that have ended.
	endings atomic.Uint64
}

// echoWindow is how long the answers of a write that ended are kept.
const echoWindow = time.Second

type write struct {
	name     objectName
	writer   Subscriber
	answers  []objectVersion
	withheld []pendingEvent
	end      time.Time // zero until it ended
	ending   uint64    // its number among those that ended, from 1
}

// objectVersion identifies one state of an object. An event and the answer to the write that
// caused it have the same.
type objectVersion struct {
	uid      string
	revision uint64 // forever, if the object is gone
}

// pendingEvent is an event of an object on its way to a subscriber, which wake wakes. It goes to one receiver: a *listener or
// a *KindWatch, of which a kind may have several.
type pendingEvent struct {
	objectVersion
	cause    Cause
	receiver any
	wake     func(Cause)
	// after is how many writes had ended when a store had received the event.
	after uint64
	// listed is that of the transition.
	listed bool
}

// deliver wakes the subscriber.
func (e pendingEvent) deliver(t *tracing.Tracer) {
	if t != nil {
		e.cause.Trace = t.Event(e.traced())
	}
	e.wake(e.cause)
}

// traced describes the event for its span.
func (e pendingEvent) traced() tracing.Change {
	return tracing.Change{Object: e.cause.Object, UID: e.uid, Revision: tracedRevision(e.revision), Change: string(e.cause.Change), At: e.cause.ObservedAt}
}

// tracedRevision is a revision in the words of package tracing.
func tracedRevision(revision uint64) string {
	if revision == forever {
		return ""
	}
	return strconv.FormatUint(revision, 10)
}

func (f *inFlightWrites) begin(w *write, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gc(now)
	ensure(&f.writes, w.name, func() []*write { return nil })
	f.writes[w.name] = append(f.writes[w.name], w)
}

// gc removes the writes whose echo window is over. The lock is held.
func (f *inFlightWrites) gc(now time.Time) {
	n := 0
	for n < len(f.ended) && !f.ended[n].end.After(now.Add(-echoWindow)) {
		f.remove(f.ended[n])
		n++
	}
	if f.ended = f.ended[n:]; len(f.ended) == 0 {
		f.ended = nil // with its memory
	}
}

// gcLater removes what has ended by a timer, since there may be no later write that does. The
// lock is held.
func (f *inFlightWrites) gcLater() {
	if f.gcTimer != nil {
		return
	}
	f.gcTimer = time.AfterFunc(2*echoWindow, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.gcTimer = nil
		f.gc(time.Now())
		if len(f.ended) > 0 {
			f.gcLater()
		}
	})
}

func (f *inFlightWrites) remove(w *write) {
	others := slices.DeleteFunc(f.writes[w.name], func(o *write) bool { return o == w })
	if f.writes[w.name] = others; len(others) == 0 {
		delete(f.writes, w.name)
	}
}

// finish ends a write. Of the events that were withheld it returns, for each receiver, the last
// that is not an own write.
func (f *inFlightWrites) finish(w *write, now time.Time) []pendingEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.end, w.ending = now, f.endings.Add(1)
	f.ended = append(f.ended, w)
	f.gcLater()
	others := slices.DeleteFunc(w.withheld, func(e pendingEvent) bool { return f.isOwn(w.name, w.writer, e) })
	w.withheld = nil
	last := others[:0]
	for i, e := range others {
		if !slices.ContainsFunc(others[i+1:], func(later pendingEvent) bool { return later.receiver == e.receiver }) {
			last = append(last, e)
		}
	}
	return last
}

// isOwn says whether an event is the echo of a write of a subscriber that had not ended when a store received the event.
// One that a list shows is none, since the list hides what others wrote before. The lock is held.
func (f *inFlightWrites) isOwn(name objectName, writer Subscriber, e pendingEvent) bool {
	return !e.listed && slices.ContainsFunc(f.writes[name], func(w *write) bool {
		return w.writer == writer && (w.end.IsZero() || w.ending > e.after) && slices.Contains(w.answers, e.objectVersion)
	})
}

// addAnswer adds an answer to the writer's writes to the object.
func (f *inFlightWrites) addAnswer(name objectName, writer Subscriber, answer objectVersion) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.writes[name] {
		if w.writer == writer && w.end.IsZero() {
			w.answers = append(w.answers, answer)
		}
	}
}

// withhold says whether an event must not wake a subscriber now: it is the echo of an own
// write, or a write of the subscriber to the object is in flight. The write then keeps the
// event until finish.
func (f *inFlightWrites) withhold(name objectName, from Subscriber, e pendingEvent) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isOwn(name, from, e) {
		return true
	}
	inFlight := false
	for _, w := range f.writes[name] {
		if w.writer == from && w.end.IsZero() {
			w.withheld = append(w.withheld, e)
			inFlight = true
		}
	}
	return inFlight
}

// versionOf identifies the state that a transition leads to, or whose event led to it.
func versionOf(t transition) objectVersion {
	switch {
	case t.new == nil:
		return objectVersion{uidOf(t.old), forever}
	case t.by != 0:
		return objectVersion{uidOf(t.new), t.by}
	}
	return objectVersion{uidOf(t.new), revisionOf(t.new)}
}
