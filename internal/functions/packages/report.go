package packages

import (
	"fmt"
	"slices"
	"time"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
)

// Reasons that a package manager gives too, where it means the same: what waits for a
// Function waits for them.
const (
	activePackage    = "ActivePackageRevision"
	inactivePackage  = "InactivePackageRevision"
	healthyPackage   = "HealthyPackageRevision"
	unhealthyPackage = "UnhealthyPackageRevision"
)

// ours are the reasons that only we give. What is marked with another is somebody else's
// to look after, unless it is one of the above with a message: see isOurs. The first of
// them are those of former versions of this program.
var ours = []string{
	"ServedByProgram", "ServedAtAddress", "ServedForDevelopment", "ServedAtEndpoint", "BuiltIn", "Inactive",
	NotRunning, NoRuntime, NoActiveRevision, NoEndpoint, NoCertificates, NotForCompositions,
}

// shared are the conditions that we mark with a package manager's reasons. They always
// have a message then. Where a package manager gives such a reason with a message, the
// object says by other means that one looks after it.
var shared = map[string][]string{
	v1.TypeInstalled:       {activePackage, inactivePackage},
	v1.TypeHealthy:         {healthyPackage, unhealthyPackage},
	v1.TypeRevisionHealthy: {healthyPackage},
}

// isOurs says whether it is we who have set a condition.
func isOurs(c v1alpha1.Condition) bool {
	return slices.Contains(ours, c.Reason) || c.Message != "" && slices.Contains(shared[c.Type], c.Reason)
}

// reported is what is to be said about a function or a revision.
type reported struct {
	conditions []v1alpha1.Condition
	// retract says that what we have said is to be taken back: somebody else looks after
	// it now.
	retract bool
}

// reportFunction says how a Function fares; nothing while that isn't known.
func reportFunction(p Place, given *Given) reported {
	installed := v1alpha1.Condition{Type: v1.TypeInstalled, Status: condition.True, Reason: activePackage}
	healthy := v1alpha1.Condition{Type: v1.TypeHealthy, Status: condition.True, Reason: healthyPackage}
	switch p.By {
	case ByProgram:
		installed.Message = given.Program + " serves it, a program that is run by this control plane"
	case ByAddress:
		installed.Message = fmt.Sprintf("it is called at %s, as --function says; whether it answers shows when it is called", given.Address)
	case ByDevelopment:
		installed.Message = fmt.Sprintf("it is called at %s without TLS, as its annotation %s says; whether it answers shows when it is called", p.Endpoint.Target, v1.DevelopmentTargetAnnotation)
	case ByPackage:
		installed.Message = fmt.Sprintf("it is called at %s, as its active FunctionRevision says; whether it answers shows when it is called", p.Endpoint.Target)
	case BuiltIn:
		installed.Message = "it is part of this control plane; its package isn't used"
	case Nowhere:
		if p.Problem.Reason == Unseen || p.Problem.Reason == Unknown {
			return reported{}
		}
		return reported{conditions: notServed(installed, healthy, p.Problem)}
	}
	installed.Message = string(p.By) + ": " + installed.Message
	healthy.Message = installed.Message
	if p.Problem.Reason != "" { // a program that has ended
		healthy.Status, healthy.Reason, healthy.Message = condition.False, unhealthyPackage, p.Problem.text()
	}
	return reported{conditions: []v1alpha1.Condition{installed, healthy}}
}

// notServed is what is said of a Function that can't be called. Where it has an active
// revision, it is installed and not healthy. That nobody runs packages is no state that a
// package manager has a word for.
func notServed(installed, healthy v1alpha1.Condition, problem Problem) []v1alpha1.Condition {
	installed.Message, healthy.Message = problem.text(), problem.text()
	healthy.Status, healthy.Reason = condition.False, unhealthyPackage
	switch problem.Reason {
	case NoRuntime:
		installed.Status, installed.Reason, healthy.Reason = condition.False, NoRuntime, NoRuntime
	case NoActiveRevision:
		installed.Status, installed.Reason = condition.False, inactivePackage
	}
	return []v1alpha1.Condition{installed, healthy}
}

func (p Problem) text() string { return p.Reason + ": " + p.Message }

// reportRevision says how a FunctionRevision fares that no package manager looks after.
func reportRevision(r revision, p Place) reported {
	c := v1alpha1.Condition{Type: v1.TypeRevisionHealthy, Status: condition.True}
	switch {
	case !r.active:
		c.Reason, c.Message = healthyPackage, "it isn't active, and isn't called"
	case r.endpoint == "" && p.Problem.Reason == "":
		c.Reason, c.Message = healthyPackage, "its function is served otherwise: "+string(p.By)
	case r.endpoint == "":
		c.Status, c.Reason, c.Message = condition.False, NoEndpoint, "nobody here runs packages: its status.endpoint must say where it is served. "+ways(r.of)
	default:
		c.Reason, c.Message = healthyPackage, "its function is called at its status.endpoint; whether it answers shows when it is called"
	}
	return reported{conditions: []v1alpha1.Condition{c}}
}

// merge is what an object's conditions are to be.
func (r reported) merge(before condition.Set, generation int64, now time.Time) condition.Set {
	after := before
	if r.retract {
		for _, c := range before {
			if isOurs(c) {
				after = after.Drop(c.Type)
			}
		}
		return after
	}
	for _, c := range r.conditions {
		c.ObservedGeneration = generation
		after = after.Mark(c, now)
	}
	return after
}
