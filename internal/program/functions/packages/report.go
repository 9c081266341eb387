package packages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
)

// Reasons that Crossplane's package manager uses too, with the same meaning: tools wait for
// them.
const (
	activePackage    = "ActivePackageRevision"
	inactivePackage  = "InactivePackageRevision"
	healthyPackage   = "HealthyPackageRevision"
	unhealthyPackage = "UnhealthyPackageRevision"
	unpackingPackage = "UnpackingPackage"
)

// ownReasons are the reasons that only this program uses. An object with a condition with another reason is managed
// by a package manager, unless it is one of the above with a message: see isOwnCondition. The first line lists
// reasons of former versions.
var ownReasons = []string{
	"ServedByProgram", "ServedAtAddress", "ServedForDevelopment", "ServedAtEndpoint", "BuiltIn", "Inactive",
	ProgramNotRunning, NoPackageRuntime, InvalidEndpoint, NoActiveRevision, NoEndpoint, NoCertificates, NotForCompositions,
}

// sharedReasons are the package manager's reasons that this program uses too, by condition
// type, always with a message. If a package manager sets one with a message, the object has
// other signs of the package manager.
var sharedReasons = map[string][]string{
	v1.TypeInstalled:       {activePackage, inactivePackage},
	v1.TypeHealthy:         {healthyPackage, unhealthyPackage},
	v1.TypeRevisionHealthy: {healthyPackage},
}

// ownTypes are the types of conditions that no package manager sets.
var ownTypes = []string{typeReady, condition.TypeReconciling, condition.TypeStalled}

// typeReady is the type of the condition that sums up the other ones, for tools that know only this one.
const typeReady = "Ready"

func isOwnCondition(c v1alpha1.Condition) bool {
	if c.Type == v1.TypeInstalled && c.Reason == unpackingPackage { // the reason of package managers too
		return strings.HasPrefix(c.Message, PackageNotInstalled+": ")
	}
	return slices.Contains(ownTypes, c.Type) || slices.Contains(ownReasons, c.Reason) || c.Message != "" && slices.Contains(sharedReasons[c.Type], c.Reason)
}

type conditionReport struct {
	conditions []v1alpha1.Condition
	// waits says that what is not ready becomes so without an action of a user.
	waits bool
	// retract says that our own conditions are to be removed: a package manager manages the
	// object.
	retract bool
}

// reportFunction returns no conditions while functions aren't read yet.
func reportFunction(p Route, local *LocalFunction) conditionReport {
	installed := v1alpha1.Condition{Type: v1.TypeInstalled, Status: condition.True, Reason: activePackage}
	healthy := v1alpha1.Condition{Type: v1.TypeHealthy, Status: condition.True, Reason: healthyPackage}
	switch p.Backend {
	case BackendProgram:
		installed.Message = local.Program + " serves it; this control plane runs the program"
	case BackendAddress:
		installed.Message = fmt.Sprintf("calls go to %s (--function); reachability is not checked before a call", local.Address)
	case BackendEndpoint:
		installed.Message = fmt.Sprintf("calls go to %s (annotation %s); reachability is not checked before a call",
			strings.TrimPrefix(p.Endpoint.Target, "dns:///"), v1.EndpointAnnotation)
	case BackendLocalPackage:
		installed.Message = "its package " + p.Package.Image + " runs on this machine"
		if p.Problem.Reason == PackageNotInstalled {
			installed.Status, installed.Reason, installed.Message = condition.False, unpackingPackage, p.Problem.text()
			healthy.Status, healthy.Reason, healthy.Message = condition.False, unhealthyPackage, p.Problem.text()
			return conditionReport{conditions: []v1alpha1.Condition{installed, healthy}, waits: p.Problem.Waits}
		}
	case BackendDevelopment:
		installed.Message = fmt.Sprintf("calls go to %s without TLS (annotation %s); reachability is not checked before a call",
			strings.TrimPrefix(p.Endpoint.Target, passthrough), v1.DevelopmentTargetAnnotation)
	case BackendPackage:
		installed.Message = fmt.Sprintf("calls go to %s, the endpoint of its active FunctionRevision; reachability is not checked before a call", p.Endpoint.Target)
	case BackendBuiltIn:
		installed.Message = "it is built into this control plane; its package is not used"
	case BackendNone:
		if p.Problem.Reason == FunctionsNotKnown || p.Problem.Reason == UnknownFunction {
			return conditionReport{}
		}
		return conditionReport{conditions: notServedConditions(installed, healthy, p.Problem)}
	}
	installed.Message = string(p.Backend) + ": " + installed.Message
	healthy.Message = installed.Message
	if p.Problem.Reason != "" { // its program has exited
		healthy.Status, healthy.Reason, healthy.Message = condition.False, unhealthyPackage, p.Problem.text()
	}
	return conditionReport{conditions: []v1alpha1.Condition{installed, healthy}, waits: p.Problem.Reason != ""}
}

// notServedConditions are the conditions of a Function that cannot be called. With an active
// revision, it is installed but not healthy. NoPackageRuntime is our own reason: package
// managers have none for it.
func notServedConditions(installed, healthy v1alpha1.Condition, problem Problem) []v1alpha1.Condition {
	installed.Message, healthy.Message = problem.text(), problem.text()
	healthy.Status, healthy.Reason = condition.False, unhealthyPackage
	switch problem.Reason {
	case NoPackageRuntime, DevelopmentNotAllowed, InvalidEndpoint:
		installed.Status, installed.Reason, healthy.Reason = condition.False, NoPackageRuntime, NoPackageRuntime
		if problem.Reason == NoPackageRuntime {
			installed.Message, healthy.Message = problem.Message, problem.Message
		}
	case NoActiveRevision:
		installed.Status, installed.Reason = condition.False, inactivePackage
	}
	return []v1alpha1.Condition{installed, healthy}
}

func (p Problem) text() string { return p.Reason + ": " + p.Message }

// reportRevision computes the condition of a FunctionRevision that no package manager
// manages.
func reportRevision(r revision, p Route) conditionReport {
	c := v1alpha1.Condition{Type: v1.TypeRevisionHealthy, Status: condition.True}
	switch {
	case !r.active:
		c.Reason, c.Message = healthyPackage, "it is not active and is not called"
	case r.endpoint == "" && p.Problem.Reason == "":
		c.Reason, c.Message = healthyPackage, "its function is served by another backend: "+string(p.Backend)
	case r.endpoint == "":
		c.Status, c.Reason, c.Message = condition.False, NoEndpoint, "no package manager runs its package, and it has no status.endpoint. "+servingHelp(r.function)
	default:
		c.Reason, c.Message = healthyPackage, "calls go to its status.endpoint; reachability is not checked before a call"
	}
	return conditionReport{conditions: []v1alpha1.Condition{c}}
}

func (r conditionReport) merge(before condition.Set, generation int64, now time.Time) condition.Set {
	after := before
	if r.retract {
		for _, c := range before {
			if isOwnCondition(c) {
				after = after.Remove(c.Type)
			}
		}
		return after
	}
	for _, c := range r.conditions {
		c.ObservedGeneration = generation
		after = after.Mark(c, now)
	}
	if len(r.conditions) == 0 {
		return after
	}
	var parts []string
	for _, c := range r.conditions {
		parts = append(parts, c.Type)
	}
	ready := after.Summarize(typeReady, generation, parts...)
	if ready.Status == condition.True {
		ready.Message = r.conditions[0].Message
	}
	return after.Mark(ready, now).MarkProgress(condition.ProgressOf(ready, !r.waits), generation, now)
}
