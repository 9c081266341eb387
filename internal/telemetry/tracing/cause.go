package tracing

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/espalier-dev/espalier/internal/object"
)

// Bounds of what is remembered: states of objects, that is who wrote them and the spans of their events; the last other
// field managers; the causes of one request in the queue; and the requests of one reconcile that write.
const (
	maxStates   = 8192
	maxManagers = 1024
	maxCauses   = 8
	maxWrites   = 1024
	maxDepth    = 64
)

// origin is a span that writes objects, and how many events lead to it. After maxDepth events a new trace
// begins, linked to the old one: controllers that answer each other forever would make one trace without end.
type origin struct {
	span  trace.SpanContext
	depth int
}

// Event is the span of one change of an object. Nil is none.
type Event struct{ origin }

// Change is one change of an object, as a watch delivers it.
type Change struct {
	Object object.Key
	// UID and Revision identify the state that the change led to. Without a revision the object is gone.
	UID      string
	Revision string
	// Change says what happened to the object.
	Change string
	At     time.Time
}

// Causes are the events that asked for one reconcile, the first one first. Nil is none. They are immutable.
type Causes struct {
	events []*Event
	total  int
	// earlier is the reconcile that asked for this one after a time.
	earlier trace.SpanContext
}

// CausedBy returns the causes of a request by one event, which may be nil.
func CausedBy(e *Event) *Causes {
	if e == nil {
		return nil
	}
	return &Causes{events: []*Event{e}, total: 1}
}

// Later returns the causes of a reconcile that this one asks for after a time: it begins a trace, linked to this one.
func (r *Reconcile) Later() *Causes {
	if r == nil {
		return nil
	}
	return &Causes{earlier: r.origin.span}
}

// Retried returns the causes of a retry of a reconcile with these causes: the same ones, or the reconcile itself if it
// has none, so the retry belongs to its trace.
func (r *Reconcile) Retried(causes *Causes) *Causes {
	if r == nil || causes.first() != nil {
		return causes
	}
	return CausedBy(&Event{r.origin})
}

// And joins causes. Those beyond maxCauses are counted and dropped.
func (c *Causes) And(others *Causes) *Causes {
	switch {
	case c == nil:
		return others
	case others == nil:
		return c
	}
	out := &Causes{total: c.total, earlier: c.earlier}
	if !out.earlier.IsValid() {
		out.earlier = others.earlier
	}
	out.events = append(out.events, c.events...)
	dropped := others.total - len(others.events)
	for _, e := range others.events {
		switch {
		case out.has(e):
			continue
		case len(out.events) < maxCauses:
			out.events = append(out.events, e)
		}
		out.total++
	}
	out.total += dropped
	return out
}

func (c *Causes) has(e *Event) bool {
	for _, own := range c.events {
		if own.span.Equal(e.span) {
			return true
		}
	}
	return false
}

func (c *Causes) first() *Event {
	if c == nil || len(c.events) == 0 {
		return nil
	}
	return c.events[0]
}

func (c *Causes) links() []trace.Link {
	if c == nil {
		return nil
	}
	var out []trace.Link
	if len(c.events) > 1 {
		for _, e := range c.events[1:] {
			out = append(out, trace.Link{SpanContext: e.span})
		}
	}
	if c.earlier.IsValid() {
		out = append(out, trace.Link{SpanContext: c.earlier})
	}
	return out
}

func (c *Causes) count() int {
	if c == nil {
		return 0
	}
	return c.total
}

// Event returns the span of a change. The parent is the request of this process that led to the state, if one did. All
// watches that deliver a state get the same event. Call it only if the change wakes a subscriber.
func (t *Tracer) Event(c Change) *Event {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := stateID{c.UID, c.Revision}
	s := t.states.values[id]
	if s.event != nil {
		return s.event
	}
	cause, assumed := s.writer, false
	if cause == nil {
		cause = t.unsettled(c.Object)
		assumed = cause != nil
	}
	s.event = t.startEvent(c, cause, assumed, t.managers.values[id])
	t.states.set(id, s)
	return s.event
}

// The span ends at once: what follows is in the spans of the reconciles.
func (t *Tracer) startEvent(c Change, cause *origin, assumed bool, manager string) *Event {
	e := &Event{}
	ctx, options := background, []trace.SpanStartOption{trace.WithTimestamp(c.At)}
	switch {
	case cause == nil:
		options = append(options, trace.WithNewRoot())
	case cause.depth >= maxDepth:
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: cause.span}))
	default:
		ctx, e.depth = trace.ContextWithSpanContext(ctx, cause.span), cause.depth+1
	}
	_, span := t.tracer.Start(ctx, "event "+c.Object.Kind, options...)
	if span.IsRecording() {
		span.SetAttributes(objectAttributes(c.Object)...)
		span.SetAttributes(present(KeyChange, c.Change, KeyUID, c.UID, KeyRevisionAt, c.Revision)...)
		switch {
		case assumed:
			span.SetAttributes(attribute.Bool(KeyAssumed, true))
		case cause == nil && manager != "":
			span.SetAttributes(attribute.String(KeyManager, manager))
		}
	}
	span.End()
	e.span = span.SpanContext()
	return e
}

// RecordWrite records that a writer's request led to a state of an object; without a revision the object is gone.
func (t *Tracer) RecordWrite(o object.Key, uid, revision string, writer object.Key) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := stateID{uid, revision}
	s := t.states.values[id]
	if s.writer != nil {
		return
	}
	if s.writer = t.writerOf(o, writer); s.writer != nil {
		t.states.set(id, s)
	}
}

// RecordManager records which field manager led to a state.
func (t *Tracer) RecordManager(uid, revision, manager string) {
	if t == nil || manager == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.managers.set(stateID{uid, revision}, manager)
}

// target is what a request's URL tells about its object. The resource is compared with the kind where it matters.
type target struct{ group, namespace, name string }

func targetOf(key object.Key) target { return target{key.Group, key.Namespace, key.Name} }

// write is a request that writes an object. The reconcile that made it keeps it, until it ends.
type write struct {
	origin
	target   target
	resource string
	by       object.Key
	// answered says that the answer has arrived; settled, that it has been recorded, or that nothing was written.
	answered, settled bool
}

// The resource may be the kind's. It need not be sure: the object's name is the same already.
func (w *write) isOf(kind string) bool {
	return len(kind) > 0 && strings.HasPrefix(w.resource, strings.ToLower(kind[:len(kind)-1]))
}

// It returns nil if the reconcile has too many.
func (t *Tracer) begin(r *Reconcile, at target, resource string, span trace.SpanContext) *write {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(r.writes) >= maxWrites {
		return nil
	}
	w := &write{origin: origin{span, r.origin.depth}, target: at, resource: resource, by: r.key}
	r.writes = append(r.writes, w)
	t.requests[at] = append(t.requests[at], w)
	return w
}

func (t *Tracer) answer(w *write, wrote bool) {
	if w == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w.answered, w.settled = true, !wrote
}

// It is the last request that writes an object, without a recorded answer yet: a watch is often faster. The lock is
// held.
func (t *Tracer) unsettled(o object.Key) *origin {
	all := t.requests[targetOf(o)]
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].settled && all[i].isOf(o.Kind) {
			return &all[i].origin
		}
	}
	return nil
}

// writerOf is the last answered request of a writer that writes an object, or of any writer if there is none, or else
// the writer's reconcile. The lock is held.
func (t *Tracer) writerOf(o, writer object.Key) *origin {
	var other *origin
	all := t.requests[targetOf(o)]
	for i := len(all) - 1; i >= 0; i-- {
		switch w := all[i]; {
		case !w.answered || !w.isOf(o.Kind):
		case w.by == writer:
			w.settled = true
			return &w.origin
		case other == nil:
			other = &w.origin
		}
	}
	if r := t.running[writer]; r != nil {
		return &r.origin
	}
	return other
}

func (t *Tracer) endReconcile(r *Reconcile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[r.key] == r {
		delete(t.running, r.key)
	}
	for _, w := range r.writes {
		var others []*write
		for _, o := range t.requests[w.target] {
			if o.by != r.key {
				others = append(others, o)
			}
		}
		if len(others) == 0 {
			delete(t.requests, w.target)
		} else {
			t.requests[w.target] = others
		}
	}
	r.writes = nil
}
