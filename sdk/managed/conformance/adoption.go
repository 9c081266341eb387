package conformance

import (
	"context"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// encounter is a managed resource that finds a resource which it hasn't made.
type encounter struct {
	what string
	// marked says that it carries somebody else's mark.
	marked bool
	// named and adopt say which annotations there are.
	named, adopt bool
	takenOn      bool
}

var encounters = []encounter{
	{what: "With a resource of its name that carries no mark"},
	{what: "With a resource of its name that carries no mark, and leave to adopt one", adopt: true, takenOn: true},
	{what: "With a resource that carries no mark and is named by the annotation", named: true, takenOn: true},
	{what: "With a resource of its name that carries another's mark", marked: true},
	{what: "With a resource of its name that carries another's mark, and leave to adopt", marked: true, adopt: true},
	{what: "With a resource that carries another's mark and is named by the annotation", marked: true, named: true},
}

// adoption plays each encounter that can be.
func (tr *trial) adoption(ctx context.Context) {
	for _, e := range encounters {
		l := tr.newLife(tr.newWorld(), e.what)
		caps := l.port.Caps()
		if ctx.Err() != nil || e.marked && !caps.Marked || !e.named && caps.Naming == external.ProviderAssigned {
			continue
		}
		l.meets(ctx, e)
	}
}

func (l *life) meets(ctx context.Context, e encounter) {
	defer l.clear(ctx)
	l.allow(everything)
	var mark external.Mark
	if e.marked {
		mark = external.Mark{ID: l.world.text("foreign"), Owner: "Other.example.org/elsewhere/other@elsewhere"}
	}
	ref, err := l.plant(ctx, mark)
	if err != nil {
		l.fails(SuiteMakesSense, "an external resource couldn't be made for it: %v", err)
		return
	}
	if e.named {
		l.annotate(resource.ExternalNameAnnotation, string(ref))
	}
	if e.adopt {
		l.annotate(resource.AdoptAnnotation, resource.AdoptIfUnmarked)
	}
	l.settle(ctx)
	l.met(ctx, e, ref)
	if l.change != nil && !l.failed {
		if err := l.change(l.object); err != nil {
			l.fails(SuiteMakesSense, "%v", err)
			return
		}
		l.settle(ctx)
		l.met(ctx, e, ref)
	}
	if l.failed {
		return
	}
	l.remove()
	l.settle(ctx)
	l.calm(ctx)
	switch n := l.alive(ctx); {
	case !l.isGone():
		l.fails(LeavesNothing, "the managed resource stays: %s %s", l.last.Synced.Reason, l.last.Synced.Message)
	case e.takenOn && n > 0:
		l.fails(LeavesNothing, "%d are left", n)
	case !e.takenOn && n != 1:
		l.fails(e.promise(), "once the managed resource is deleted there are %d", n)
	}
}

// met looks at what has become of it.
func (l *life) met(ctx context.Context, e encounter, ref external.Ref) {
	n := l.alive(ctx)
	reason, name := l.last.Synced.Reason, l.object.GetAnnotations()[resource.ExternalNameAnnotation]
	switch {
	case l.created > 0 || n != 1:
		l.fails(e.promise(), "%d creations were begun, and there are %d", l.created, n)
	case e.takenOn && (reason != resource.ReconcileSuccess || name != string(ref)):
		l.fails(e.promise(), "it isn't taken on: it says %s: %s", reason, l.last.Synced.Message)
	case !e.takenOn && (reason != resource.Conflict || l.begun > 0):
		l.fails(e.promise(), "it isn't left alone: it says %s: %s, and Begin was called %d times", reason, l.last.Synced.Message, l.begun)
	}
}

func (e encounter) promise() Promise {
	if e.marked {
		return LeavesWhatIsOthers
	}
	return AdoptsOnlyWhenAsked
}

// twins lets two managed resources be after the same external one.
func (tr *trial) twins(ctx context.Context) {
	w := tr.newWorld()
	first := tr.newLife(w, "Of two on one name, the first")
	second := tr.newLife(w, "Of two on one name, the second")
	defer first.clear(ctx)
	defer second.clear(ctx)
	first.allow(everything)
	second.allow(everything)
	first.settle(ctx)
	ref := first.object.GetAnnotations()[resource.ExternalNameAnnotation]
	if first.failed || ref == "" || ctx.Err() != nil {
		return // why is told elsewhere
	}
	named := first.port.Caps().Naming == external.CallerAssigned
	second.annotate(resource.ExternalNameAnnotation, ref)
	second.remember(external.Ref(ref))
	second.settle(ctx)
	if reason := second.last.Synced.Reason; reason != resource.NameReserved && (named || reason != resource.Conflict) {
		second.fails(OneOwner, "it says %s: %s", reason, second.last.Synced.Message)
	}
	if second.begun > 0 || named && second.calls > 0 {
		second.fails(OneOwner, "it makes %d calls, %d of which change something", second.calls, second.begun)
	}
	first.remove()
	first.settle(ctx)
	first.elapse(ctx, first.port.Caps().Reuse)
	second.settle(ctx)
	if reason := second.last.Synced.Reason; named && reason != resource.ReconcileSuccess && !second.failed {
		second.fails(OneOwner, "when the first has gone it says %s: %s", reason, second.last.Synced.Message)
	}
	second.remove()
	second.settle(ctx)
	second.calm(ctx)
	if n := second.alive(ctx); n > 0 {
		second.fails(LeavesNothing, "%d are left", n)
	}
}
