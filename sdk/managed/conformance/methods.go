package conformance

import (
	"bytes"
	"context"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// methodChecks calls the methods of one object's client directly, without the runtime.
type methodChecks struct {
	*scenario
	key    external.Key
	mark   external.Mark
	intent external.Intent
	ref    external.Ref
}

// checkMethods checks the promises about single methods.
func (r *runner) checkMethods(ctx context.Context) {
	s := r.newScenario(r.newCluster(), "Methods called directly")
	s.compareReads = true
	defer s.cleanUp(ctx)
	m := &methodChecks{scenario: s, mark: external.Mark{ID: s.cluster.randomText("mark"), Owner: s.markOwner()}}
	for _, check := range []func(context.Context, *checkedSession){
		m.checkIdentify, m.checkAbsent, m.checkCreate, m.checkPresent, m.checkObserveFaults, m.checkUpdate, m.checkDelete,
	} {
		raw, err := s.connect(ctx, s.object)
		if err != nil {
			s.fail(SuiteIsValid, "%v", err)
			return
		}
		check(ctx, &checkedSession{Session: raw, scenario: s})
		_ = raw.Close() // an error does not matter for any promise
		if s.failed {
			return // the next check would only repeat it
		}
	}
}

// checkIdentify gets the key with and without the annotation.
func (m *methodChecks) checkIdentify(ctx context.Context, session *checkedSession) {
	var err error
	if m.key, err = session.Identify(); err != nil {
		m.fail(IdentifyIsPure, "Identify: %v", err)
		return
	}
	o := m.object.DeepCopy()
	o.SetAnnotations(map[string]string{resource.ExternalNameAnnotation: m.object.GetName() + "-x"})
	raw, err := m.connect(ctx, o)
	if err != nil {
		m.fail(SuiteIsValid, "%v", err)
		return
	}
	defer raw.Close()
	want := m.key
	if m.key.Name != "" {
		want.Name = m.object.GetName() + "-x"
	}
	if got, err := raw.Identify(); err != nil || got != want {
		m.fail(IdentifyUsesAnnotation, "with the annotation, Identify returned %+v (%s), and should return %+v", got, errorText(err), want)
	}
}

// checkAbsent observes a resource that does not exist.
func (m *methodChecks) checkAbsent(ctx context.Context, session *checkedSession) {
	if m.key.Name != "" {
		if o, err := session.Observe(ctx, external.Ref(m.key.Name)); err != nil || o.Presence != external.Absent {
			m.fail(ObserveReturnsRef, "before the creation, Observe returned %s", observationText(o, err))
		}
	}
	if session.port.Caps().Findable {
		if found, err := session.Find(ctx, m.key, m.mark); err != nil || len(found) > 0 {
			m.fail(FindsByMark, "before the creation, Find returned %d, %s", len(found), errorText(err))
		}
	}
}

// checkCreate creates the resource. It makes the same call twice if that has one effect.
func (m *methodChecks) checkCreate(ctx context.Context, session *checkedSession) {
	request, err := session.Prepare(external.Create, external.Observation{})
	if err != nil {
		m.fail(SuiteIsValid, "prepare the creation of an object of New: %v", err)
		return
	}
	m.checkPrepareFaults(ctx, session, external.Create, external.Observation{}, request)
	m.intent = external.Intent{Verb: external.Create, Attempt: 1, Token: m.cluster.randomText("token"), Mark: m.mark, Key: m.key, Request: request}
	op, err := session.Begin(ctx, m.intent)
	caps := session.port.Caps()
	var second external.Op
	if isIdempotent := caps.Naming == external.CallerAssigned || caps.TokenTTL > typicalDuration; isIdempotent && err == nil && op.Err == nil {
		if second, err = session.Begin(ctx, m.intent); err == nil && second.Err == nil {
			second, err = m.pollUntilDone(ctx, session, second, err)
		}
		if err != nil || second.Err != nil && second.Err.Class == external.Ambiguous {
			m.fail(BeginIsIdempotent, "the second creation returned %s", opText(second, err))
		}
	}
	m.port = m.kind() // another process polls
	if op, err = m.pollUntilDone(ctx, session, op, err); err != nil || op.Err != nil {
		m.fail(SuiteIsValid, "create an object of New: %s", opText(op, err))
		return
	}
	if m.ref = op.Ref; m.ref == "" {
		m.ref = external.Ref(m.key.Name)
	}
	if second.Err == nil && second.Ref != "" && second.Ref != m.ref {
		m.fail(BeginIsIdempotent, "the first creation returned %q, and the second %q", m.ref, second.Ref)
	}
	m.waitUntilConsistent(ctx)
	if n := m.countExternal(ctx); n > 1 {
		m.fail(BeginIsIdempotent, "after two creations with the same intent there are %d external resources", n)
	}
}

// checkPrepareFaults checks that Prepare returns the same during faults of the external API.
func (m *methodChecks) checkPrepareFaults(ctx context.Context, session *checkedSession, verb external.Verb, o external.Observation, want external.Request) {
	for _, fault := range m.callFaults() {
		_, remove := fault.inject(ctx)
		got, err := session.Session.Prepare(verb, o)
		remove()
		if err != nil || !bytes.Equal(want, got) {
			m.fail(PrepareMakesNoCalls, "while %s, Prepare returned %q (%s) instead of %q", fault.name, got, errorText(err), want)
		}
	}
}

// checkPresent observes and finds the resource.
func (m *methodChecks) checkPresent(ctx context.Context, session *checkedSession) {
	caps := session.port.Caps()
	if m.ref == "" {
		found, err := session.Find(ctx, m.key, m.mark)
		if err != nil || len(found) != 1 {
			m.fail(FindsByMark, "Find returned %d instead of 1, %s", len(found), errorText(err))
			return
		}
		m.ref = found[0].Ref
	}
	o, err := session.Observe(ctx, m.ref)
	switch {
	case err != nil || o.Presence != external.Present:
		m.fail(ObserveReturnsRef, "after the creation of %q, Observe returned %s", m.ref, observationText(o, err))
		return
	case caps.Marked && !m.mark.Is(o.Mark):
		m.fail(MarksAreObserved, "it was created with the mark %q, and Observe returned %s", m.mark.ID, observationText(o, nil))
	case o.UpToDate == external.No:
		m.fail(ObserveDetectsDrift, "after the creation, Observe returned the difference: %s", o.Diff)
	}
	if !caps.Findable {
		return
	}
	if found, err := session.Find(ctx, m.key, m.mark); err != nil || len(found) != 1 || found[0].Ref != m.ref {
		m.fail(FindsByMark, "Find returned %d instead of 1, %s", len(found), errorText(err))
	}
	if found, err := session.Find(ctx, m.key, external.Mark{ID: m.mark.ID + "-another", Owner: m.mark.Owner}); err != nil || len(found) != 0 {
		m.fail(FindsByMark, "Find by a mark that no resource has returned %d, %s", len(found), errorText(err))
	}
}

// checkObserveFaults observes the resource during faults of the external API.
func (m *methodChecks) checkObserveFaults(ctx context.Context, session *checkedSession) {
	for _, fault := range m.callFaults() {
		m.fault, m.faultAt = &fault, m.calls+1
		_, _ = session.Observe(ctx, m.ref) // checkedSession checks the result
		m.fault = nil
	}
}

// checkUpdate sends an update by a client of the unchanged object: only the request counts.
func (m *methodChecks) checkUpdate(ctx context.Context, session *checkedSession) {
	if m.change == nil {
		return
	}
	o := m.object.DeepCopy()
	if err := m.change(o); err != nil {
		m.fail(SuiteIsValid, "%v", err)
		return
	}
	raw, err := m.connect(ctx, o)
	if err != nil {
		m.fail(SuiteIsValid, "%v", err)
		return
	}
	defer raw.Close()
	changed := &checkedSession{Session: raw, scenario: m.scenario}
	before, err := changed.Observe(ctx, m.ref)
	if err != nil || before.UpToDate != external.No {
		m.fail(ObserveDetectsDrift, "after a change of the object, Observe returned %s", observationText(before, err))
		return
	}
	request, err := changed.Prepare(external.Update, before)
	if err != nil {
		m.fail(SuiteIsValid, "prepare the update to an object of Change: %v", err)
		return
	}
	m.checkPrepareFaults(ctx, changed, external.Update, before, request)
	i := external.Intent{Verb: external.Update, Attempt: 2, Token: m.cluster.randomText("token"), Mark: m.mark, Key: m.key, Ref: m.ref, Request: request}
	if op, err := m.beginAndPoll(ctx, session, i); err != nil || op.Err != nil {
		m.fail(SuiteIsValid, "update to an object of Change: %s", opText(op, err))
		return
	}
	_, _ = m.beginAndPoll(ctx, session, i) // the observation below shows whether it had another effect
	m.waitUntilConsistent(ctx)
	after, err := changed.Observe(ctx, m.ref)
	if err != nil || after.UpToDate == external.No {
		m.fail(BeginUsesRequest, "the request of an update was prepared for another state of the object; after the update, Observe returned %s: %s",
			observationText(after, err), after.Diff)
	}
}

// checkDelete deletes the resource, and sends the same deletion once more afterwards.
func (m *methodChecks) checkDelete(ctx context.Context, session *checkedSession) {
	o, err := session.Observe(ctx, m.ref)
	if err != nil {
		m.fail(ObserveReturnsRef, "Observe: %v", err)
		return
	}
	request, err := session.Prepare(external.Delete, o)
	if err != nil {
		m.fail(SuiteIsValid, "prepare a deletion: %v", err)
		return
	}
	i := external.Intent{Verb: external.Delete, Attempt: 3, Token: m.cluster.randomText("token"), Mark: m.mark, Key: m.key, Ref: m.ref, Request: request}
	if op, err := m.beginAndPoll(ctx, session, i); err != nil || op.Err != nil {
		m.fail(DeletesOrOrphans, "the deletion returned %s", opText(op, err))
		return
	}
	if op, err := m.beginAndPoll(ctx, session, i); err != nil || op.Err != nil && op.Err.Class == external.Ambiguous {
		m.fail(BeginIsIdempotent, "the second deletion returned %s", opText(op, err))
	}
	m.waitUntilConsistent(ctx)
	for range 10 { // an operation may be done before the resource is absent
		if o, err = session.Observe(ctx, m.ref); err != nil || o.Presence == external.Absent {
			break
		}
		m.advance(ctx, typicalDuration)
	}
	if err != nil || o.Presence != external.Absent {
		m.fail(DeletesOrOrphans, "after the deletion, Observe returned %s", observationText(o, err))
	}
	if n := m.countExternal(ctx); n > 0 {
		m.fail(DeletesOrOrphans, "after the deletion there are %d external resources", n)
	}
}
