package conformance

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// mostCalls bounds the calls of a life, mostChanges those of Begin.
const (
	mostCalls   = 300
	mostChanges = 10
)

// guard is a client's session that is looked after: each call is noted, and what it
// promises by itself is checked.
type guard struct {
	port.Session
	*life
}

// Identify is asked twice.
func (g *guard) Identify() (external.Key, error) {
	key, err := still(g, "Identify", g.Session.Identify)
	again, _ := g.Session.Identify()
	if err == nil && key != again {
		g.fails(IdentifyIsPure, "it is %+v, and then %+v", key, again)
	}
	if named := g.port.Caps().Naming == external.CallerAssigned; err == nil && named != (key.Name != "") {
		g.fails(IdentifyIsPure, "the name is %q, and Caps say that the caller assigns names: %t", key.Name, named)
	}
	if err == nil && key.Type == "" {
		g.fails(IdentifyIsPure, "the key has no type")
	}
	return key, err
}

// Observe looks, and looks again where it was in trouble and says that nothing is there.
func (g *guard) Observe(ctx context.Context, ref external.Ref) (external.Observation, error) {
	look := func() (external.Observation, error) { return g.Session.Observe(ctx, ref) }
	sick, end := g.falls(ctx)
	o, err := quiet(g, sick, "Observe", func() (external.Observation, error) { return g.Session.Observe(sick, ref) })
	end()
	g.note("Observe %q: %s", ref, seen(o, err))
	g.keeps(o.Diff, o.State, o.Message, o.AtProvider, o.LateInit, err)
	if err != nil {
		return o, err
	}
	if sick != nil && g.inTrouble() && o.Presence == external.Absent {
		if really, err := look(); err == nil && really.Presence != external.Absent {
			g.fails(AbsentIsCertain, "it says that there is no %q, and right after that it says %s", ref, seen(really, nil))
		}
	}
	if (o.Presence == external.Present || o.Presence == external.Deleting) && o.Ref != ref && o.Ref != "" {
		g.fails(ObservesWhatIsThere, "it was asked for %q, and tells of %q", ref, o.Ref)
	}
	g.fitting(o)
	return o, nil
}

// Find lists what carries the mark.
func (g *guard) Find(ctx context.Context, key external.Key, mark external.Mark) ([]external.Observation, error) {
	if !g.port.Caps().Findable {
		g.fails(FindsByMark, "it is asked, and Caps say that it can't be")
	}
	sick, end := g.falls(ctx)
	found, err := quiet(g, sick, "Find", func() ([]external.Observation, error) { return g.Session.Find(sick, key, mark) })
	end()
	g.note("Find %s: %d, %v", mark.ID, len(found), err)
	for _, o := range found {
		if !mark.Is(o.Mark) {
			g.fails(FindsByMark, "it was asked for the mark %q, and lists what is %s", mark.ID, seen(o, nil))
		}
		if o.Ref == "" {
			g.fails(FindsByMark, "it lists one without its identity")
		}
		g.remember(o.Ref)
	}
	return found, err
}

// Prepare is asked twice, and it doesn't matter whether the external API can be reached.
func (g *guard) Prepare(verb external.Verb, o external.Observation) (external.Request, error) {
	r, err := quiet(g, nil, "Prepare", func() (external.Request, error) { return g.Session.Prepare(verb, o) })
	again, err2 := g.Session.Prepare(verb, o)
	g.note("Prepare %s: %d bytes, %s", verb, len(r), errorText(err))
	if (err == nil) != (err2 == nil) || !bytes.Equal(r, again) {
		g.fails(PrepareIsSame, "for %s it gave %q (%s), and then %q (%s)", verb, r, errorText(err), again, errorText(err2))
	}
	g.keeps(string(r), err)
	return r, err
}

// Begin makes the call.
func (g *guard) Begin(ctx context.Context, i external.Intent) (external.Op, error) {
	g.begun++
	g.report.Changes++
	if i.Verb == external.Create {
		g.created++
	}
	if g.begun > mostChanges {
		g.fails(ComesToRest, "Begin was called %d times", g.begun)
	}
	before, asked := g.print(ctx), bytes.Clone(i.Request)
	sick, end := g.falls(ctx)
	g.begunAt = append(g.begunAt, g.asked)
	op, err := still(g, "Begin", func() (external.Op, error) { return g.Session.Begin(sick, i) })
	end()
	g.note("Begin %s: %s", told(i), answered(op, err))
	g.remember(op.Ref)
	if !bytes.Equal(asked, i.Request) {
		g.fails(RequestsAreFrozen, "the request was %q, and is %q after the call", asked, i.Request)
	}
	if op.Err != nil && err == nil && op.Err.Class == external.Rejected {
		if now := g.print(ctx); now != before {
			g.fails(RejectedHadNoEffect, "%s was rejected with %q, and there was\n%s\nand is\n%s", told(i), op.Err, before, now)
		}
	}
	caps := g.port.Caps()
	if i.Verb == external.Create && err == nil && op.Err == nil && op.Done && op.Ref == "" && caps.Naming == external.ProviderAssigned && !caps.Findable {
		g.fails(IdentityIsTold, "%s has ended well, without an identity", told(i))
	}
	g.keeps(op.Resume, op.State, op.Err, err)
	return op, err
}

// Poll asks, and asks again about what has ended.
func (g *guard) Poll(ctx context.Context, was external.Op) (external.Op, error) {
	sick, end := g.falls(ctx)
	op, err := quiet(g, sick, "Poll", func() (external.Op, error) { return g.Session.Poll(sick, was) })
	end()
	g.note("Poll %q: %s", was.Resume, answered(op, err))
	g.remember(op.Ref)
	if err == nil && op.Err == nil && op.Done {
		if again, err := g.Session.Poll(ctx, was); err != nil || again.Err != nil || !again.Done || again.Ref != op.Ref {
			g.fails(PollRepeats, "of %q it says %s, and then %s", was.Resume, answered(op, nil), answered(again, err))
		}
	}
	g.keeps(op.Resume, op.State, op.Err, err)
	return op, err
}

// still makes a call and looks whether the managed resource is left alone.
func still[T any](g *guard, method string, call func() (T, error)) (T, error) {
	holder, ok := g.Session.(interface{ Object() runtime.Object })
	if !ok {
		return call()
	}
	before := holder.Object().DeepCopyObject()
	out, err := call()
	if !reflect.DeepEqual(before, holder.Object()) {
		g.fails(ObjectIsLeftAlone, "%s has changed it", method)
	}
	return out, err
}

// quiet makes a call that changes nothing, and sees whether it does.
func quiet[T any](g *guard, ctx context.Context, method string, call func() (T, error)) (T, error) {
	if !g.strict || g.inTrouble() {
		return still(g, method, call)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	before := g.print(ctx)
	out, err := still(g, method, call)
	if now := g.print(ctx); now != before {
		g.fails(ReadsChangeNothing, "before %s there was\n%s\nand after it there is\n%s", method, before, now)
	}
	return out, err
}

func (l *life) remember(ref external.Ref) {
	for _, known := range l.refs {
		if known == ref {
			return
		}
	}
	if ref != "" {
		l.refs = append(l.refs, ref)
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("error: %v", err)
}
