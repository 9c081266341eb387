package conformance

import (
	"context"

	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// deaths plays a life under each plan, and then one for each way to die in it. The
// steps before a death are those of the life without, so that these are all there are.
func (tr *trial) deaths(ctx context.Context) {
	type point struct {
		plan
		death
	}
	var points []point
	for _, p := range tr.plans() {
		if ctx.Err() != nil {
			return
		}
		l := tr.newLife(tr.newWorld(), p.where())
		l.strict = true
		l.live(ctx, p)
		if l.failed {
			continue // its deaths would only repeat it
		}
		for i, do := range l.trace {
			points = append(points, point{p, death{at: i + 1, fate: after}})
			if do == operation.Begin {
				points = append(points, point{p, death{at: i + 1, fate: never}}, point{p, death{at: i + 1, fate: delayed}})
			}
		}
	}
	failed := 0
	for _, p := range spread(points, tr.most) {
		if ctx.Err() != nil || failed > enough {
			return
		}
		l := tr.newLife(tr.newWorld(), p.where())
		l.death = p.death
		l.live(ctx, p.plan)
		if l.failed {
			failed++
		}
	}
}

// enough lives that went wrong tell what there is to tell.
const enough = 20

// live plays a whole life, and checks at each rest what came of it.
func (l *life) live(ctx context.Context, p plan) {
	defer l.clear(ctx)
	l.allow(p)
	if p.planted {
		ref, err := l.plant(ctx, external.Mark{})
		if err != nil {
			l.fails(SuiteMakesSense, "an external resource couldn't be made for it: %v", err)
			return
		}
		l.annotate(resource.ExternalNameAnnotation, string(ref))
	}
	if !l.rests(ctx) {
		return
	}
	l.checkMade(ctx, p)
	if l.change != nil && !l.failed {
		l.changes(ctx, p)
	}
	if l.failed {
		return
	}
	l.remove()
	if l.rests(ctx) {
		l.checkGone(ctx, p)
	}
}

// allow sets the policies.
func (l *life) allow(p plan) {
	spec, ok := l.object.Object["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		l.object.Object["spec"] = spec
	}
	spec["managementPolicies"] = p.policies()
	delete(spec, "deletionPolicy")
}

// rests lets it come to rest. It says whether it goes on: a life whose creation can't be
// resolved ends there, unless somebody can say what became of it.
func (l *life) rests(ctx context.Context) bool {
	l.settle(ctx)
	l.calm(ctx)
	if !l.isGone() {
		l.settle(ctx) // what was late may have changed something
	}
	if l.isGone() || l.failed {
		return !l.failed
	}
	switch l.last.Synced.Reason {
	case resource.CreateUnresolved:
		return l.resolve(ctx)
	case resource.Conflict:
		return !l.mayDouble() // it is told; somebody has to look
	}
	return true
}

// mayDouble says that after a disturbance nothing rules out that there are two, or that
// it can't be told what became of a creation: neither a name, nor a token that lasts,
// nor a mark that is waited for.
func (l *life) mayDouble() bool {
	caps := l.port.Caps()
	disturbed := l.death.at > 0 || l.death.in != "" || l.ill != nil
	switch {
	case !disturbed, caps.Naming == external.CallerAssigned:
		return false
	case caps.TokenTTL > 0:
		return caps.TokenTTL < someTime+caps.Settle
	}
	return !caps.Findable
}

// resolve is what a user does about a creation that can't be resolved.
func (l *life) resolve(ctx context.Context) bool {
	if !l.mayDouble() {
		l.fails(ComesToRest, "it says %s, and Caps promise that it can be resolved: %s", l.last.Synced.Reason, l.last.Synced.Message)
		return false
	}
	n := l.alive(ctx)
	switch {
	case n == 0:
		l.annotate(resource.RetryAnnotation, l.world.text("retry"))
	case n == 1 && len(l.refs) > 0:
		l.annotate(resource.ExternalNameAnnotation, string(l.refs[0]))
	default:
		return false
	}
	l.note("somebody has looked, and there is %d", n)
	l.settle(ctx)
	l.calm(ctx)
	return l.last.Synced.Reason != resource.CreateUnresolved
}

// checkMade looks at what there is after the creation.
func (l *life) checkMade(ctx context.Context, p plan) {
	n := l.alive(ctx)
	_, own := l.own()
	switch {
	case n > 1:
		l.fails(OneResource, "there are %d, and it says %s", n, l.last.Synced.Reason)
	case p.has() && n == 0, !p.has() && n > 0:
		l.fails(RestsInOrder, "there are %d, and it says %s: %s", n, l.last.Synced.Reason, l.last.Synced.Message)
	case !p.creates() && l.created > 0:
		l.fails(FollowsPolicies, "a creation was begun")
	case p.paused() && l.calls > 0:
		l.fails(FollowsPolicies, "there were %d calls", l.calls)
	case p.has() && l.last.Synced.Reason != resource.ReconcileSuccess:
		l.fails(RestsInOrder, "it says %s: %s", l.last.Synced.Reason, l.last.Synced.Message)
	case p.has() && (own.spec == nil || own.spec.Ref == "" || own.spec.Ref != l.object.GetAnnotations()[resource.ExternalNameAnnotation]):
		l.fails(KeepsItsName, "the annotation says %q, and bound is %+v", l.object.GetAnnotations()[resource.ExternalNameAnnotation], own.spec)
	}
}

// changes lets somebody change the object, and looks whether that has come about.
func (l *life) changes(ctx context.Context, p plan) {
	if err := l.change(l.object); err != nil {
		l.fails(SuiteMakesSense, "%v", err)
		return
	}
	l.allow(p)
	l.note("the object is changed")
	ref := external.Ref(l.object.GetAnnotations()[resource.ExternalNameAnnotation])
	if !p.has() || ref == "" {
		return
	}
	if o, err := l.observe(ctx, l.object, ref); err == nil && o.UpToDate != external.No {
		l.fails(ObserveTellsDiffers, "after a change it says %s", seen(o, nil))
		return
	}
	l.rests(ctx)
	l.calm(ctx)
	o, err := l.observe(ctx, l.object, ref)
	switch {
	case err != nil:
		l.fails(SuiteMakesSense, "it can't be looked at: %v", err)
	case p.updates() && o.UpToDate != external.Yes:
		l.fails(RestsInOrder, "after a change it is %s, and says %s: %s", seen(o, nil), l.last.Synced.Reason, l.last.Synced.Message)
	case !p.updates() && o.UpToDate == external.Yes:
		l.fails(FollowsPolicies, "it was updated")
	}
	if n := l.alive(ctx); n > 1 {
		l.fails(OneResource, "after an update there are %d", n)
	}
}

// checkGone looks at what there is after the deletion.
func (l *life) checkGone(ctx context.Context, p plan) {
	n := l.alive(ctx)
	switch {
	case !l.isGone():
		l.fails(LeavesNothing, "the managed resource stays: %s %s", l.last.Synced.Reason, l.last.Synced.Message)
	case p.has() && p.deletes() && n > 0:
		l.fails(LeavesNothing, "%d are left", n)
	case p.has() && !p.deletes() && n == 0:
		l.fails(LeavesNothing, "it was deleted")
	case n > 1:
		l.fails(OneResource, "there are %d", n)
	}
	l.elapse(ctx, l.port.Caps().Reuse)
	if len(l.world.bindings) > 0 {
		l.fails(LeavesNothing, "%d Bindings are left", len(l.world.bindings))
	}
}
