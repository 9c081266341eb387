package conformance

import (
	"context"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// adoptionCase is a managed resource with an external resource that another client has created.
type adoptionCase struct {
	name string
	// marked: the external resource carries the mark of another object.
	marked bool
	// hasName and hasAdopt report which annotations the object has.
	hasName, hasAdopt bool
	wantAdopted       bool
}

var adoptionCases = []adoptionCase{
	{name: "An unmarked resource has its name"},
	{name: "An unmarked resource has its name, and the annotation allows adoption", hasAdopt: true, wantAdopted: true},
	{name: "The annotation names an unmarked resource", hasName: true, wantAdopted: true},
	{name: "A resource with a foreign mark has its name", marked: true},
	{name: "A resource with a foreign mark has its name, and the annotation allows adoption", marked: true, hasAdopt: true},
	{name: "The annotation names a resource with a foreign mark", marked: true, hasName: true},
}

// checkAdoption runs each case that is possible with the capabilities of the kind.
func (r *runner) checkAdoption(ctx context.Context) {
	for _, c := range adoptionCases {
		s := r.newScenario(r.newCluster(), c.name)
		caps := s.port.Caps()
		if ctx.Err() != nil || c.marked && !caps.Marked || !c.hasName && caps.Naming == external.ProviderAssigned {
			continue
		}
		s.runAdoption(ctx, c)
	}
}

func (s *scenario) runAdoption(ctx context.Context, c adoptionCase) {
	defer s.cleanUp(ctx)
	s.setPolicies(allPolicies)
	var mark external.Mark
	if c.marked {
		mark = external.Mark{ID: s.cluster.randomText("foreign"), Owner: "Other.example.org/elsewhere/other@elsewhere"}
	}
	ref, err := s.createExternal(ctx, mark)
	if err != nil {
		s.fail(SuiteIsValid, "create an external resource: %v", err)
		return
	}
	if c.hasName {
		s.annotate(resource.ExternalNameAnnotation, string(ref))
	}
	if c.hasAdopt {
		s.annotate(resource.AdoptAnnotation, resource.AdoptIfUnmarked)
	}
	s.reconcileUntilIdle(ctx)
	s.checkAdopted(ctx, c, ref)
	if s.change != nil && !s.failed {
		if err := s.change(s.object); err != nil {
			s.fail(SuiteIsValid, "%v", err)
			return
		}
		s.reconcileUntilIdle(ctx)
		s.checkAdopted(ctx, c, ref)
	}
	if s.failed {
		return
	}
	s.deleteObject()
	s.reconcileUntilIdle(ctx)
	s.waitUntilConsistent(ctx)
	switch n := s.countExternal(ctx); {
	case !s.isDeleted():
		s.fail(DeletesOrOrphans, "the managed resource is not deleted; Synced is %s: %s", s.last.Synced.Reason, s.last.Synced.Message)
	case c.wantAdopted && n > 0:
		s.fail(DeletesOrOrphans, "%d external resources are left", n)
	case !c.wantAdopted && n != 1:
		s.fail(c.promise(), "after the deletion of the managed resource there are %d external resources", n)
	}
}

// checkAdopted checks whether the external resource is adopted, or else unchanged.
func (s *scenario) checkAdopted(ctx context.Context, c adoptionCase, ref external.Ref) {
	n := s.countExternal(ctx)
	reason, name := s.last.Synced.Reason, s.object.GetAnnotations()[resource.ExternalNameAnnotation]
	switch {
	case s.creations > 0 || n != 1:
		s.fail(c.promise(), "there were %d creations, and there are %d external resources", s.creations, n)
	case c.wantAdopted && (reason != resource.ReconcileSuccess || name != string(ref)):
		s.fail(c.promise(), "it is not adopted; Synced is %s: %s", reason, s.last.Synced.Message)
	case !c.wantAdopted && (reason != resource.Conflict || s.changes > 0):
		s.fail(c.promise(), "Synced is %s, and not %s: %s; Begin was called %d times", reason, resource.Conflict, s.last.Synced.Message, s.changes)
	}
}

func (c adoptionCase) promise() Promise {
	if c.marked {
		return LeavesForeignResources
	}
	return AdoptsOnlyIfAllowed
}

// checkOneOwner reconciles two managed resources with the same external name.
func (r *runner) checkOneOwner(ctx context.Context) {
	shared := r.newCluster()
	first := r.newScenario(shared, "The first of two objects with one external name")
	second := r.newScenario(shared, "The second of two objects with one external name")
	defer first.cleanUp(ctx)
	defer second.cleanUp(ctx)
	first.setPolicies(allPolicies)
	second.setPolicies(allPolicies)
	first.reconcileUntilIdle(ctx)
	ref := first.object.GetAnnotations()[resource.ExternalNameAnnotation]
	if first.failed || ref == "" || ctx.Err() != nil {
		return // the other scenarios report why
	}
	callerAssigned := first.port.Caps().Naming == external.CallerAssigned
	second.annotate(resource.ExternalNameAnnotation, ref)
	second.addRef(external.Ref(ref))
	second.reconcileUntilIdle(ctx)
	if reason := second.last.Synced.Reason; reason != resource.NameReserved && (callerAssigned || reason != resource.Conflict) {
		second.fail(OneOwner, "Synced is %s, and not %s: %s", reason, resource.NameReserved, second.last.Synced.Message)
	}
	if second.changes > 0 || callerAssigned && second.calls > 0 {
		second.fail(OneOwner, "it makes %d calls, %d of them changes", second.calls, second.changes)
	}
	first.deleteObject()
	first.reconcileUntilIdle(ctx)
	first.advance(ctx, first.port.Caps().Reuse)
	second.reconcileUntilIdle(ctx)
	if reason := second.last.Synced.Reason; callerAssigned && reason != resource.ReconcileSuccess && !second.failed {
		second.fail(OneOwner, "after the deletion of the first, Synced is %s: %s", reason, second.last.Synced.Message)
	}
	second.deleteObject()
	second.reconcileUntilIdle(ctx)
	second.waitUntilConsistent(ctx)
	if n := second.countExternal(ctx); n > 0 {
		second.fail(DeletesOrOrphans, "%d external resources are left", n)
	}
}
