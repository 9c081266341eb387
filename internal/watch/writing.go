package watch

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Writing announces a write to an object, because the watch is often faster
// than the answer: until done is called, what the watch delivers of the object is
// kept from the writer. Then it is told of it after all, unless it was the echo
// of an answer that was recorded in the meantime.
//
// Write is how it is used. Done must be called, and soon; calling it again does nothing.
func (h *Hub) Writing(gvk schema.GroupVersionKind, namespace, name string, writer Subscriber) (done func()) {
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
			event.wake(event.cause)
		}
	})
}

// Write makes one write to an object. Its answer is in the caches when it returns,
// and its echo doesn't wake the writer; what others change at the same time does.
func (h *Hub) Write(o *unstructured.Unstructured, writer Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	done := h.Writing(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), writer)
	defer done()
	answer, err := do()
	if err == nil {
		h.Record(answer, writer)
	}
	return answer, err
}

// underway are the writes to a kind's objects that await their answers, and
// those that had them a moment ago: an event may be on its way between a store
// and its routing when the answer comes. It is safe for concurrent use.
type underway struct {
	mu     sync.Mutex
	writes map[objectName][]*write
	ended  []*write    // in order of time
	purge  *time.Timer // set while there are any
}

// afterglow is for how long a write that ended still explains its echo.
const afterglow = time.Second

type write struct {
	name    objectName
	writer  Subscriber
	answers []incarnation
	held    []heldEvent
	end     time.Time // zero until it ended
}

// incarnation is a state of an object that an event and an answer both name.
type incarnation struct {
	uid      string
	revision uint64 // forever, if it is gone
}

type heldEvent struct {
	incarnation
	cause Cause
	wake  func(Cause)
}

func (u *underway) begin(w *write, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetUntil(now.Add(-afterglow))
	ensure(&u.writes, w.name, func() []*write { return nil })
	u.writes[w.name] = append(u.writes[w.name], w)
}

// forgetUntil forgets the writes that ended by then. The lock is held.
func (u *underway) forgetUntil(then time.Time) {
	n := 0
	for n < len(u.ended) && !u.ended[n].end.After(then) {
		u.forget(u.ended[n])
		n++
	}
	if u.ended = u.ended[n:]; len(u.ended) == 0 {
		u.ended = nil // with what it held
	}
}

// purgeLater forgets what has ended once nothing more can come of it: nobody may
// write again. The lock is held.
func (u *underway) purgeLater() {
	if u.purge != nil {
		return
	}
	u.purge = time.AfterFunc(2*afterglow, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.purge = nil
		u.forgetUntil(time.Now().Add(-afterglow))
		if len(u.ended) > 0 {
			u.purgeLater()
		}
	})
}

func (u *underway) forget(w *write) {
	others := slices.DeleteFunc(u.writes[w.name], func(o *write) bool { return o == w })
	if u.writes[w.name] = others; len(others) == 0 {
		delete(u.writes, w.name)
	}
}

// finish returns, of the events that were held, the last that no answer explains.
func (u *underway) finish(w *write, now time.Time) []heldEvent {
	u.mu.Lock()
	defer u.mu.Unlock()
	w.end = now
	u.ended = append(u.ended, w)
	u.purgeLater()
	news := slices.DeleteFunc(w.held, func(e heldEvent) bool { return u.explained(w.name, w.writer, e.incarnation) })
	w.held = nil
	return news[max(0, len(news)-1):]
}

// explained tells whether an event is the echo of an answer. The lock is held.
func (u *underway) explained(name objectName, to Subscriber, i incarnation) bool {
	return slices.ContainsFunc(u.writes[name], func(w *write) bool {
		return w.writer == to && slices.Contains(w.answers, i)
	})
}

// answered notes an answer to the writer's writes to the object.
func (u *underway) answered(name objectName, writer Subscriber, answer incarnation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, w := range u.writes[name] {
		if w.writer == writer && w.end.IsZero() {
			w.answers = append(w.answers, answer)
		}
	}
}

// hold keeps an event from somebody who is writing to its object, or whose write
// it echoes, and tells whether it did.
func (u *underway) hold(name objectName, from Subscriber, e heldEvent) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.explained(name, from, e.incarnation) {
		return true
	}
	held := false
	for _, w := range u.writes[name] {
		if w.writer == from && w.end.IsZero() {
			w.held = append(w.held, e)
			held = true
		}
	}
	return held
}

// stateOf is what an event or an answer says the object is now.
func stateOf(t transition) incarnation {
	if t.is == nil {
		return incarnation{uidOf(t.was), forever}
	}
	return incarnation{uidOf(t.is), revisionOf(t.is)}
}
