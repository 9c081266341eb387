package functions

import (
	"fmt"
	"slices"
	"time"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
)

// Reasons of conditions that are true. None is one of a package manager's, so that it
// shows who has said what.
const (
	servedByProgram     = "ServedByProgram"
	servedAtAddress     = "ServedAtAddress"
	servedByDevelopment = "ServedForDevelopment"
	servedByPackage     = "ServedAtEndpoint"
	servedHere          = "BuiltIn"
	notServed           = "Inactive"
)

// ours are the reasons that only we give. What is marked with another is somebody else's
// to look after.
var ours = []string{
	servedByProgram, servedAtAddress, servedByDevelopment, servedByPackage, servedHere, notServed,
	NotRunning, NoRuntime, NoActiveRevision, NoEndpoint, NoCertificates, NotForCompositions,
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
	installed := v1alpha1.Condition{Type: v1.TypeInstalled, Status: condition.True}
	switch p.By {
	case ByProgram:
		installed.Reason, installed.Message = servedByProgram, given.Program+" serves it, a program that is run by this control plane"
	case ByAddress:
		installed.Reason, installed.Message = servedAtAddress, fmt.Sprintf("it is called at %s, as --function says; whether it answers shows when it is called", given.Address)
	case ByDevelopment:
		installed.Reason, installed.Message = servedByDevelopment, fmt.Sprintf("it is called at %s without TLS, as its annotation %s says; whether it answers shows when it is called", p.Endpoint.Target, v1.DevelopmentTargetAnnotation)
	case ByPackage:
		installed.Reason, installed.Message = servedByPackage, fmt.Sprintf("it is called at %s, as its active FunctionRevision says; whether it answers shows when it is called", p.Endpoint.Target)
	case BuiltIn:
		installed.Reason, installed.Message = servedHere, "it is part of this control plane; its package isn't used"
	case Nowhere:
		if p.Problem.Reason == Unseen || p.Problem.Reason == Unknown {
			return reported{}
		}
		installed.Status, installed.Reason, installed.Message = condition.False, p.Problem.Reason, p.Problem.Message
	}
	healthy := installed
	healthy.Type = v1.TypeHealthy
	if p.By == ByProgram && p.Problem.Reason != "" {
		healthy.Status, healthy.Reason, healthy.Message = condition.False, p.Problem.Reason, p.Problem.Message
	}
	return reported{conditions: []v1alpha1.Condition{installed, healthy}}
}

// reportRevision says how a FunctionRevision fares that no package manager looks after.
func reportRevision(r revision, p Place) reported {
	c := v1alpha1.Condition{Type: v1.TypeRevisionHealthy, Status: condition.True}
	switch {
	case !r.active:
		c.Reason, c.Message = notServed, "it isn't active, and isn't called"
	case r.endpoint == "" && p.Problem.Reason == "":
		c.Reason, c.Message = notServed, "its function is served otherwise: "+string(p.By)
	case r.endpoint == "":
		c.Status, c.Reason, c.Message = condition.False, NoEndpoint, "nobody here runs packages: its status.endpoint must say where it is served. "+ways(r.of)
	default:
		c.Reason, c.Message = servedByPackage, "its function is called at its status.endpoint; whether it answers shows when it is called"
	}
	return reported{conditions: []v1alpha1.Condition{c}}
}

// merge is what an object's conditions are to be.
func (r reported) merge(before condition.Set, generation int64, now time.Time) condition.Set {
	after := before
	if r.retract {
		for _, c := range before {
			if slices.Contains(ours, c.Reason) {
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
