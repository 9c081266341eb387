package conformance

import (
	"bytes"
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// maxCalls limits the calls of a scenario, maxChanges the calls of Begin.
const (
	maxCalls   = 300
	maxChanges = 10
)

// checkedSession is a client's session that logs each call, and checks the promises that can be
// checked by one call.
type checkedSession struct {
	port.Session
	*scenario
}

// Identify calls the client twice.
func (c *checkedSession) Identify() (external.Key, error) {
	key, err := checkUnmodified(c, "Identify", c.Session.Identify)
	second, _ := c.Session.Identify()
	if err == nil && key != second {
		c.fail(IdentifyIsPure, "Identify returned %+v, and then %+v", key, second)
	}
	if callerAssigned := c.port.Caps().Naming == external.CallerAssigned; err == nil && callerAssigned != (key.Name != "") {
		c.fail(IdentifyIsPure, "the name is %q, and by Caps.Naming the caller assigns names: %t", key.Name, callerAssigned)
	}
	if err == nil && key.Type == "" {
		c.fail(IdentifyIsPure, "the key has no type")
	}
	return key, err
}

// Observe calls the client. If it returns Absent during a fault, it calls it again afterwards.
func (c *checkedSession) Observe(ctx context.Context, ref external.Ref) (external.Observation, error) {
	faulty, remove := c.startCall(ctx)
	o, err := checkReadOnly(c, faulty, "Observe", func() (external.Observation, error) { return c.Session.Observe(faulty, ref) })
	remove()
	c.logf("Observe %q: %s", ref, observationText(o, err))
	c.checkSecrets(o.Diff, o.State, o.Message, o.AtProvider, o.LateInit, err)
	if err != nil {
		return o, err
	}
	if c.isFaulty() && o.Presence == external.Absent {
		if second, err := c.Session.Observe(ctx, ref); err == nil && second.Presence != external.Absent {
			c.fail(AbsentIsCertain, "Observe %q returned Absent during a fault, and right after it %s", ref, observationText(second, nil))
		}
	}
	if (o.Presence == external.Present || o.Presence == external.Deleting) && o.Ref != ref && o.Ref != "" {
		c.fail(ObserveReturnsRef, "Observe %q returned %q", ref, o.Ref)
	}
	c.checkObservation(o)
	return o, nil
}

// Find calls the client, and checks that each result carries the mark.
func (c *checkedSession) Find(ctx context.Context, key external.Key, mark external.Mark) ([]external.Observation, error) {
	if !c.port.Caps().Findable {
		c.fail(FindsByMark, "Find is called, although Caps.Findable is not set")
	}
	faulty, remove := c.startCall(ctx)
	found, err := checkReadOnly(c, faulty, "Find", func() ([]external.Observation, error) { return c.Session.Find(faulty, key, mark) })
	remove()
	c.logf("Find %s: %d, %s", mark.ID, len(found), errorText(err))
	for _, o := range found {
		if !mark.Is(o.Mark) {
			c.fail(FindsByMark, "Find by the mark %q returned %s", mark.ID, observationText(o, nil))
		}
		if o.Ref == "" {
			c.fail(FindsByMark, "Find returned a resource without its identity")
		}
		c.addRef(o.Ref)
	}
	return found, err
}

// Prepare calls the client twice.
func (c *checkedSession) Prepare(verb external.Verb, o external.Observation) (external.Request, error) {
	request, err := checkReadOnly(c, context.Background(), "Prepare", func() (external.Request, error) { return c.Session.Prepare(verb, o) })
	second, secondErr := c.Session.Prepare(verb, o)
	c.logf("Prepare %s: %d bytes, %s", verb, len(request), errorText(err))
	if (err == nil) != (secondErr == nil) || !bytes.Equal(request, second) {
		c.fail(PrepareIsDeterministic, "Prepare %s returned %q (%s), and then %q (%s)", verb, request, errorText(err), second, errorText(secondErr))
	}
	c.checkSecrets(string(request), err)
	return request, err
}

// Begin calls the client, and checks that a rejected call changes nothing.
func (c *checkedSession) Begin(ctx context.Context, i external.Intent) (external.Op, error) {
	c.changes++
	c.report.Changes++
	if i.Verb == external.Create {
		c.creations++
	}
	if c.changes > maxChanges {
		c.fail(Converges, "Begin was called %d times", c.changes)
	}
	before, request := c.externalState(ctx), bytes.Clone(i.Request)
	faulty, remove := c.startCall(ctx)
	c.beginCalls = append(c.beginCalls, c.calls)
	op, err := checkUnmodified(c, "Begin", func() (external.Op, error) { return c.Session.Begin(faulty, i) })
	remove()
	c.logf("Begin %s: %s", intentText(i), opText(op, err))
	c.addRef(op.Ref)
	if !bytes.Equal(request, i.Request) {
		c.fail(BeginUsesRequest, "the request was %q, and is %q after the call", request, i.Request)
	}
	if op.Err != nil && err == nil && op.Err.Class == external.Rejected {
		if after := c.externalState(ctx); after != before {
			c.fail(RejectedHadNoEffect, "%s was rejected with %q; the state before was\n%s\nand after it\n%s", intentText(i), op.Err, before, after)
		}
	}
	caps := c.port.Caps()
	if i.Verb == external.Create && err == nil && op.Err == nil && op.Done && op.Ref == "" && caps.Naming == external.ProviderAssigned && !caps.Findable {
		c.fail(CreateReturnsRef, "%s has succeeded without an identity", intentText(i))
	}
	c.checkSecrets(op.Resume, op.State, op.Err, err)
	return op, err
}

// Poll calls the client, and a second time if the operation is done.
func (c *checkedSession) Poll(ctx context.Context, was external.Op) (external.Op, error) {
	faulty, remove := c.startCall(ctx)
	op, err := checkReadOnly(c, faulty, "Poll", func() (external.Op, error) { return c.Session.Poll(faulty, was) })
	remove()
	c.logf("Poll %q: %s", was.Resume, opText(op, err))
	c.addRef(op.Ref)
	if err == nil && op.Err == nil && op.Done {
		if second, err := c.Session.Poll(ctx, was); err != nil || second.Err != nil || !second.Done || second.Ref != op.Ref {
			c.fail(PollIsRepeatable, "Poll %q returned %s, and then %s", was.Resume, opText(op, nil), opText(second, err))
		}
	}
	c.checkSecrets(op.Resume, op.State, op.Err, err)
	return op, err
}

// checkUnmodified makes a call, and checks that it does not change the managed resource.
func checkUnmodified[T any](c *checkedSession, method string, call func() (T, error)) (T, error) {
	holder, ok := c.Session.(interface{ Object() runtime.Object })
	if !ok {
		return call()
	}
	before := holder.Object().DeepCopyObject()
	out, err := call()
	if !reflect.DeepEqual(before, holder.Object()) {
		c.fail(ObjectIsNotModified, "%s has changed it", method)
	}
	return out, err
}

// checkReadOnly makes a call, and checks that it changes nothing in the external API.
func checkReadOnly[T any](c *checkedSession, ctx context.Context, method string, call func() (T, error)) (T, error) {
	if !c.compareReads || c.isFaulty() {
		return checkUnmodified(c, method, call)
	}
	before := c.externalState(ctx)
	out, err := checkUnmodified(c, method, call)
	if after := c.externalState(ctx); after != before {
		c.fail(ReadsChangeNothing, "the state before %s was\n%s\nand after it\n%s", method, before, after)
	}
	return out, err
}

// addRef adds an identity to those that an external resource of the scenario may have.
func (s *scenario) addRef(ref external.Ref) {
	for _, known := range s.refs {
		if known == ref {
			return
		}
	}
	if ref != "" {
		s.refs = append(s.refs, ref)
	}
}
