package conformance

import (
	"context"
	"slices"
)

// callFault is a fault during one call of a client.
type callFault struct {
	name   string
	inject func(context.Context) (faulty context.Context, remove func())
}

// contextCanceled is tested for each suite.
var contextCanceled = callFault{"the context of the call was canceled", func(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, func() {}
}}

// callFaults are contextCanceled and the faults of the suite.
func (r *runner) callFaults() []callFault {
	out := []callFault{contextCanceled}
	for _, f := range r.faults {
		out = append(out, callFault{f.Name, func(ctx context.Context) (context.Context, func()) { return ctx, f.Inject() }})
	}
	return out
}

// startCall counts a call that may call the external API, and injects the scenario's fault if it
// is for this call.
func (s *scenario) startCall(ctx context.Context) (faulty context.Context, remove func()) {
	s.calls++
	s.report.Calls++
	if s.calls == maxCalls && s.virtualTime {
		s.fail(Converges, "the client was called %d times", s.calls)
	}
	if !s.isFaulty() {
		return ctx, func() {}
	}
	s.logf("fault begins: %s", s.fault.name)
	faulty, end := s.fault.inject(ctx)
	return faulty, func() {
		end()
		s.logf("fault ends")
	}
}

// isFaulty reports whether the scenario's fault is for the current call.
func (s *scenario) isFaulty() bool { return s.fault != nil && s.calls == s.faultAt }

// checkFaults runs a scenario for each fault during each call.
func (r *runner) checkFaults(ctx context.Context) {
	undisturbed := r.newScenario(r.newCluster(), allPolicies.String())
	undisturbed.run(ctx, allPolicies)
	if undisturbed.failed {
		return // faults would only repeat its findings
	}
	type point struct {
		fault callFault
		call  int
	}
	var changes, reads []point
	for _, fault := range r.callFaults() {
		for n := 1; n <= undisturbed.calls; n++ {
			if slices.Contains(undisturbed.beginCalls, n) {
				changes = append(changes, point{fault, n}) // MaxScenarios does not limit these
			} else {
				reads = append(reads, point{fault, n})
			}
		}
	}
	for _, p := range append(changes, sample(reads, (r.maxScenarios+3)/4)...) {
		if ctx.Err() != nil {
			return
		}
		s := r.newScenario(r.newCluster(), allPolicies.String())
		s.fault, s.faultAt = &p.fault, p.call
		s.run(ctx, allPolicies)
	}
}

// sample selects at most n items at even distances; all if n is 0.
func sample[T any](all []T, n int) []T {
	if n == 0 || len(all) <= n {
		return all
	}
	var out []T
	for i := range n {
		out = append(out, all[i*len(all)/n])
	}
	return out
}
