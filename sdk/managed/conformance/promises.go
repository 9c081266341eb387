package conformance

import (
	"bytes"
	"context"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// byHand is one object whose client is asked without the runtime.
type byHand struct {
	*life
	key    external.Key
	mark   external.Mark
	intent external.Intent
	ref    external.Ref
}

// promises asks each method by hand for what it promises by itself.
func (tr *trial) promises(ctx context.Context) {
	l := tr.newLife(tr.newWorld(), "Asked by hand")
	l.strict = true
	defer l.clear(ctx)
	h := &byHand{life: l, mark: external.Mark{ID: l.world.text("mark"), Owner: l.owner()}}
	for _, step := range []func(context.Context, *guard){h.identity, h.nothing, h.creation, h.there, h.sick, h.update, h.deletion} {
		raw, err := l.connect(ctx, l.object)
		if err != nil {
			l.fails(SuiteMakesSense, "%v", err)
			return
		}
		step(ctx, &guard{Session: raw, life: l})
		_ = raw.Close() // nothing rests on it
		if l.failed {
			return // the next step would only repeat it
		}
	}
}

// identity asks for the key, as it is and with a name that somebody has said.
func (h *byHand) identity(ctx context.Context, g *guard) {
	var err error
	if h.key, err = g.Identify(); err != nil {
		h.fails(IdentifyIsPure, "it fails: %v", err)
		return
	}
	o := h.object.DeepCopy()
	o.SetAnnotations(map[string]string{resource.ExternalNameAnnotation: h.object.GetName() + "-x"})
	raw, err := h.connect(ctx, o)
	if err != nil {
		h.fails(SuiteMakesSense, "%v", err)
		return
	}
	defer raw.Close()
	want := h.key
	if h.key.Name != "" {
		want.Name = h.object.GetName() + "-x"
	}
	if got, err := raw.Identify(); err != nil || got != want {
		h.fails(IdentifyTakesName, "with the annotation it is %+v (%s), and is to be %+v", got, errorText(err), want)
	}
}

// nothing looks at what isn't there.
func (h *byHand) nothing(ctx context.Context, g *guard) {
	if h.key.Name != "" {
		if o, err := g.Observe(ctx, external.Ref(h.key.Name)); err != nil || o.Presence != external.Absent {
			h.fails(ObservesWhatIsThere, "of what there isn't it says %s", seen(o, err))
		}
	}
	if g.port.Caps().Findable {
		if found, err := g.Find(ctx, h.key, h.mark); err != nil || len(found) > 0 {
			h.fails(FindsByMark, "of what there isn't it finds %d, %s", len(found), errorText(err))
		}
	}
}

// creation makes the same call twice, where that is promised to have one effect.
func (h *byHand) creation(ctx context.Context, g *guard) {
	request, err := g.Prepare(external.Create, external.Observation{})
	if err != nil {
		h.fails(SuiteMakesSense, "what New gives can't be prepared: %v", err)
		return
	}
	h.prepares(ctx, g, external.Create, external.Observation{}, request)
	h.intent = external.Intent{Verb: external.Create, Attempt: 1, Token: h.world.text("token"), Mark: h.mark, Key: h.key, Request: request}
	op, err := g.Begin(ctx, h.intent)
	caps := g.port.Caps()
	var again external.Op
	if repeats := caps.Naming == external.CallerAssigned || caps.TokenTTL > someTime; repeats && err == nil && op.Err == nil {
		if again, err = g.Begin(ctx, h.intent); err == nil && again.Err == nil {
			again, err = h.polled(ctx, g, again, err)
		}
		if err != nil || again.Err != nil && again.Err.Class == external.Ambiguous {
			h.fails(BeginRepeats, "the second creation says %s", answered(again, err))
		}
	}
	h.port = h.kind() // another process goes on
	if op, err = h.polled(ctx, g, op, err); err != nil || op.Err != nil {
		h.fails(SuiteMakesSense, "what New gives can't be created: %s", answered(op, err))
		return
	}
	if h.ref = op.Ref; h.ref == "" {
		h.ref = external.Ref(h.key.Name)
	}
	if again.Err == nil && again.Ref != "" && again.Ref != h.ref {
		h.fails(BeginRepeats, "it made %q, and then %q", h.ref, again.Ref)
	}
	h.calm(ctx)
	if n := h.alive(ctx); n > 1 {
		h.fails(BeginRepeats, "after the same creation twice there are %d", n)
	}
}

// prepares looks whether a request needs the external API.
func (h *byHand) prepares(ctx context.Context, g *guard, verb external.Verb, o external.Observation, want external.Request) {
	for _, ill := range h.illnesses() {
		_, end := ill.begin(ctx)
		got, err := g.Session.Prepare(verb, o)
		end()
		if err != nil || !bytes.Equal(want, got) {
			h.fails(PrepareMakesNoCalls, "where %s, it gives %q (%s) instead of %q", ill.name, got, errorText(err), want)
		}
	}
}

// there looks at what was made.
func (h *byHand) there(ctx context.Context, g *guard) {
	caps := g.port.Caps()
	if h.ref == "" {
		found, err := g.Find(ctx, h.key, h.mark)
		if err != nil || len(found) != 1 {
			h.fails(FindsByMark, "it finds %d of one, %s", len(found), errorText(err))
			return
		}
		h.ref = found[0].Ref
	}
	o, err := g.Observe(ctx, h.ref)
	switch {
	case err != nil || o.Presence != external.Present:
		h.fails(ObservesWhatIsThere, "of what was made as %q it says %s", h.ref, seen(o, err))
		return
	case caps.Marked && !h.mark.Is(o.Mark):
		h.fails(MarksAreSeen, "it was marked %q, and it says %s", h.mark.ID, seen(o, nil))
	case o.UpToDate == external.No:
		h.fails(ObserveTellsDiffers, "of what was just made it says: %s", o.Diff)
	}
	if !caps.Findable {
		return
	}
	if found, err := g.Find(ctx, h.key, h.mark); err != nil || len(found) != 1 || found[0].Ref != h.ref {
		h.fails(FindsByMark, "it finds %d of one, %s", len(found), errorText(err))
	}
	if found, err := g.Find(ctx, h.key, external.Mark{ID: h.mark.ID + "-another", Owner: h.mark.Owner}); err != nil || len(found) != 0 {
		h.fails(FindsByMark, "it finds %d by a mark that nothing carries, %s", len(found), errorText(err))
	}
}

// sick looks at what is there while something goes wrong.
func (h *byHand) sick(ctx context.Context, g *guard) {
	for _, ill := range h.illnesses() {
		h.ill, h.illAt = &ill, h.asked+1
		_, _ = g.Observe(ctx, h.ref) // the guard looks at what it says
		h.ill = nil
	}
}

// update asks for a change by an object that hasn't changed: what counts is the request.
func (h *byHand) update(ctx context.Context, g *guard) {
	if h.change == nil {
		return
	}
	o := h.object.DeepCopy()
	if err := h.change(o); err != nil {
		h.fails(SuiteMakesSense, "%v", err)
		return
	}
	raw, err := h.connect(ctx, o)
	if err != nil {
		h.fails(SuiteMakesSense, "%v", err)
		return
	}
	defer raw.Close()
	next := &guard{Session: raw, life: h.life}
	before, err := next.Observe(ctx, h.ref)
	if err != nil || before.UpToDate != external.No {
		h.fails(ObserveTellsDiffers, "after a change it says %s", seen(before, err))
		return
	}
	request, err := next.Prepare(external.Update, before)
	if err != nil {
		h.fails(SuiteMakesSense, "what Change gives can't be prepared: %v", err)
		return
	}
	h.prepares(ctx, next, external.Update, before, request)
	i := external.Intent{Verb: external.Update, Attempt: 2, Token: h.world.text("token"), Mark: h.mark, Key: h.key, Ref: h.ref, Request: request}
	if op, err := h.ended(ctx, g, i); err != nil || op.Err != nil {
		h.fails(SuiteMakesSense, "what Change gives can't be made: %s", answered(op, err))
		return
	}
	_, _ = h.ended(ctx, g, i) // what comes of it is seen
	h.calm(ctx)
	after, err := next.Observe(ctx, h.ref)
	if err != nil || after.UpToDate == external.No {
		h.fails(RequestsAreFrozen, "an update was asked for by a request that was prepared for another state of the object, and then it says %s: %s", seen(after, err), after.Diff)
	}
}

// deletion deletes it twice, and once more when it has gone.
func (h *byHand) deletion(ctx context.Context, g *guard) {
	o, err := g.Observe(ctx, h.ref)
	if err != nil {
		h.fails(ObservesWhatIsThere, "%v", err)
		return
	}
	request, err := g.Prepare(external.Delete, o)
	if err != nil {
		h.fails(SuiteMakesSense, "a deletion can't be prepared: %v", err)
		return
	}
	i := external.Intent{Verb: external.Delete, Attempt: 3, Token: h.world.text("token"), Mark: h.mark, Key: h.key, Ref: h.ref, Request: request}
	if op, err := h.ended(ctx, g, i); err != nil || op.Err != nil {
		h.fails(LeavesNothing, "a deletion says %s", answered(op, err))
		return
	}
	if op, err := h.ended(ctx, g, i); err != nil || op.Err != nil && op.Err.Class == external.Ambiguous {
		h.fails(BeginRepeats, "a deletion of what has gone says %s", answered(op, err))
	}
	h.calm(ctx)
	for range 10 { // an operation may have ended before all of it is gone
		if o, err = g.Observe(ctx, h.ref); err != nil || o.Presence == external.Absent {
			break
		}
		h.elapse(ctx, someTime)
	}
	if err != nil || o.Presence != external.Absent {
		h.fails(LeavesNothing, "after its deletion it says %s", seen(o, err))
	}
	if n := h.alive(ctx); n > 0 {
		h.fails(LeavesNothing, "after its deletion there are %d", n)
	}
}
