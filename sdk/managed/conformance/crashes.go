package conformance

import (
	"context"

	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// checkCrashes runs one scenario without a crash for each set of policies, and then one for each crash in it. The steps
// before a crash are the same as without, so these are all crashes that are possible.
func (r *runner) checkCrashes(ctx context.Context) {
	type point struct {
		policySet
		crash
	}
	var points []point
	for _, p := range r.policySets() {
		if ctx.Err() != nil {
			return
		}
		s := r.newScenario(r.newCluster(), p.String())
		s.compareReads = true
		s.run(ctx, p)
		if s.failed {
			continue // crashes would only repeat its findings
		}
		for i, do := range s.trace {
			points = append(points, point{p, crash{at: i + 1, mode: afterStep}})
			if do == operation.Begin {
				points = append(points, point{p, crash{at: i + 1, mode: beforeCall}}, point{p, crash{at: i + 1, mode: duringCall}})
			}
		}
	}
	failed := 0
	for _, p := range sample(points, r.maxScenarios) {
		if ctx.Err() != nil || failed > maxFailures {
			return
		}
		s := r.newScenario(r.newCluster(), p.policySet.String())
		s.crash = p.crash
		s.run(ctx, p.policySet)
		if s.failed {
			failed++
		}
	}
}

// maxFailures is after how many failed scenarios the rest is skipped.
const maxFailures = 20

// run creates, changes and deletes the object, and checks the external resources each time that
// the reconciles have nothing more to do.
func (s *scenario) run(ctx context.Context, p policySet) {
	defer s.cleanUp(ctx)
	s.setPolicies(p)
	if p.preexisting {
		ref, err := s.createExternal(ctx, external.Mark{})
		if err != nil {
			s.fail(SuiteIsValid, "create an external resource: %v", err)
			return
		}
		s.annotate(resource.ExternalNameAnnotation, string(ref))
	}
	if !s.converge(ctx) {
		return
	}
	s.checkCreated(ctx, p)
	if s.change != nil && !s.failed {
		s.runChange(ctx, p)
	}
	if s.failed {
		return
	}
	s.deleteObject()
	if s.converge(ctx) {
		s.checkDeleted(ctx, p)
	}
}

func (s *scenario) setPolicies(p policySet) {
	spec, ok := s.object.Object["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		s.object.Object["spec"] = spec
	}
	spec["managementPolicies"] = p.field()
	delete(spec, "deletionPolicy")
}

// converge reconciles until there is nothing more to do, and reports whether the scenario can continue: it ends with a
// creation that stays without a known outcome.
func (s *scenario) converge(ctx context.Context) bool {
	s.reconcileUntilIdle(ctx)
	s.waitUntilConsistent(ctx)
	if !s.isDeleted() {
		s.reconcileUntilIdle(ctx) // a delayed call may have changed something
	}
	if s.isDeleted() || s.failed {
		return !s.failed
	}
	switch s.last.Synced.Reason {
	case resource.CreateUnresolved:
		return s.resolveCreation(ctx)
	case resource.Conflict:
		return !s.mayDuplicate() // a person has to decide
	}
	return true
}

// mayDuplicate reports whether a crash or a fault may leave two resources, or a creation without a known outcome: there
// is neither a name, nor a token that is valid for long enough, nor a mark to find the resource by.
func (s *scenario) mayDuplicate() bool {
	caps := s.port.Caps()
	disturbed := s.crash.at > 0 || s.crash.step != "" || s.fault != nil
	switch {
	case !disturbed, caps.Naming == external.CallerAssigned:
		return false
	case caps.TokenTTL > 0:
		return caps.TokenTTL < typicalDuration+caps.Settle
	}
	return !caps.Findable
}

// resolveCreation does what a user does about a creation with an unknown outcome.
func (s *scenario) resolveCreation(ctx context.Context) bool {
	if !s.mayDuplicate() {
		s.fail(Converges, "Synced is %s, although the outcome can be determined with these Caps: %s", s.last.Synced.Reason, s.last.Synced.Message)
		return false
	}
	n := s.countExternal(ctx)
	switch {
	case n == 0:
		s.annotate(resource.RetryAnnotation, s.cluster.randomText("retry"))
	case n == 1 && len(s.refs) > 0:
		s.annotate(resource.ExternalNameAnnotation, string(s.refs[0]))
	default:
		return false
	}
	s.logf("a user has found %d external resources, and set an annotation", n)
	s.reconcileUntilIdle(ctx)
	s.waitUntilConsistent(ctx)
	return s.last.Synced.Reason != resource.CreateUnresolved
}

// checkCreated checks the external resources after the creation.
func (s *scenario) checkCreated(ctx context.Context, p policySet) {
	n := s.countExternal(ctx)
	_, b := s.findBinding()
	switch {
	case n > 1:
		s.fail(AtMostOneResource, "there are %d external resources, and Synced is %s", n, s.last.Synced.Reason)
	case p.wantsResource() && n == 0, !p.wantsResource() && n > 0:
		s.fail(ReachesDesiredState, "there are %d external resources, and Synced is %s: %s", n, s.last.Synced.Reason, s.last.Synced.Message)
	case !p.allowsCreate() && s.creations > 0:
		s.fail(FollowsPolicies, "Begin was called with a creation")
	case p.isPaused() && s.calls > 0:
		s.fail(FollowsPolicies, "there were %d calls", s.calls)
	case p.wantsResource() && s.last.Synced.Reason != resource.ReconcileSuccess:
		s.fail(ReachesDesiredState, "Synced is %s: %s", s.last.Synced.Reason, s.last.Synced.Message)
	case p.wantsResource() && (b.spec == nil || b.spec.Ref == "" || b.spec.Ref != s.object.GetAnnotations()[resource.ExternalNameAnnotation]):
		s.fail(KeepsExternalName, "the annotation is %q, and the Binding is %+v", s.object.GetAnnotations()[resource.ExternalNameAnnotation], b.spec)
	}
}

// runChange changes the object, and checks whether the external resource is updated.
func (s *scenario) runChange(ctx context.Context, p policySet) {
	if err := s.change(s.object); err != nil {
		s.fail(SuiteIsValid, "%v", err)
		return
	}
	s.setPolicies(p)
	s.logf("a user changes the object")
	ref := external.Ref(s.object.GetAnnotations()[resource.ExternalNameAnnotation])
	if !p.wantsResource() || ref == "" {
		return
	}
	if o, err := s.observe(ctx, s.object, ref); err == nil && o.UpToDate != external.No {
		s.fail(ObserveDetectsDrift, "after a change of the object, Observe returns %s", observationText(o, nil))
		return
	}
	s.converge(ctx)
	s.waitUntilConsistent(ctx)
	o, err := s.observe(ctx, s.object, ref)
	switch {
	case err != nil:
		s.fail(SuiteIsValid, "Observe: %v", err)
	case p.allowsUpdate() && o.UpToDate != external.Yes:
		s.fail(ReachesDesiredState, "after a change of the object, Observe returns %s, and Synced is %s: %s", observationText(o, nil), s.last.Synced.Reason,
			s.last.Synced.Message)
	case !p.allowsUpdate() && o.UpToDate == external.Yes:
		s.fail(FollowsPolicies, "the external resource was updated")
	}
	if n := s.countExternal(ctx); n > 1 {
		s.fail(AtMostOneResource, "after an update there are %d external resources", n)
	}
}

// checkDeleted checks the external resources and Bindings after the deletion.
func (s *scenario) checkDeleted(ctx context.Context, p policySet) {
	n := s.countExternal(ctx)
	switch {
	case !s.isDeleted():
		s.fail(DeletesOrOrphans, "the managed resource is not deleted; Synced is %s: %s", s.last.Synced.Reason, s.last.Synced.Message)
	case p.wantsResource() && p.allowsDelete() && n > 0:
		s.fail(DeletesOrOrphans, "%d external resources are left", n)
	case p.wantsResource() && !p.allowsDelete() && n == 0:
		s.fail(DeletesOrOrphans, "the external resource was deleted")
	case n > 1:
		s.fail(AtMostOneResource, "there are %d external resources", n)
	}
	s.advance(ctx, s.port.Caps().Reuse)
	if len(s.cluster.bindings) > 0 {
		s.fail(DeletesOrOrphans, "%d Bindings are left", len(s.cluster.bindings))
	}
}
