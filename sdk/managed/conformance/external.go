package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// withSession calls a function with a session that neither counts nor checks its calls.
func (s *scenario) withSession(ctx context.Context, o *unstructured.Unstructured, call func(port.Session) error) error {
	session, err := s.connect(ctx, o)
	if err != nil {
		return err
	}
	defer session.Close()
	return call(session)
}

// knownRefs are the identities that an external resource of the scenario may have.
func (s *scenario) knownRefs(session port.Session) []external.Ref {
	all := slices.Clone(s.refs)
	if key, err := session.Identify(); err == nil && key.Name != "" && !slices.Contains(all, external.Ref(key.Name)) {
		all = append(all, external.Ref(key.Name))
	}
	return all
}

// countExternal returns how many external resources of the scenario's object exist: by Count, or
// else by the known identities and the mark.
func (s *scenario) countExternal(ctx context.Context) int {
	if s.count != nil {
		n, err := s.count(ctx, s.object)
		if err != nil {
			s.fail(SuiteIsValid, "Count: %v", err)
		}
		return n - s.initialCount
	}
	n := 0
	err := s.withSession(ctx, s.object, func(session port.Session) error {
		for _, ref := range s.knownRefs(session) {
			o, err := session.Observe(ctx, ref)
			if err != nil {
				return err
			}
			if o.Presence == external.Present || o.Presence == external.Deleting {
				n++
			}
		}
		_, b := s.findBinding()
		if !s.port.Caps().Findable || b.spec == nil {
			return nil
		}
		key, err := session.Identify()
		if err != nil {
			return err
		}
		found, err := session.Find(ctx, key, external.Mark{ID: b.spec.Mark, Owner: s.markOwner()})
		n = max(n, len(found))
		return err
	})
	if err != nil {
		s.fail(SuiteIsValid, "count the external resources: %v", err)
	}
	return n
}

// externalState returns a text that changes when something changes in the external API, as far
// as that can be observed.
func (s *scenario) externalState(ctx context.Context) string {
	ctx = context.WithoutCancel(ctx)
	if s.snapshot != nil {
		text, err := s.snapshot(ctx)
		if err != nil {
			s.fail(SuiteIsValid, "Snapshot: %v", err)
		}
		return text
	}
	var lines []string
	if s.count != nil {
		n, _ := s.count(ctx, s.object) // countExternal reports the error
		lines = append(lines, fmt.Sprintf("%d external resources", n))
	}
	_ = s.withSession(ctx, s.object, func(session port.Session) error {
		for _, ref := range s.knownRefs(session) {
			o, err := session.Observe(ctx, ref)
			if s.virtualTime {
				raw, _ := json.Marshal(o.AtProvider)
				lines = append(lines, fmt.Sprintf("%q: %s, ready %d, %s", ref, observationText(o, err), o.Ready, raw))
			} else {
				// In real time, the other fields change without a call.
				lines = append(lines, fmt.Sprintf("%q: %s %d %v", ref, o.Presence, o.UpToDate, err))
			}
		}
		return nil
	})
	return strings.Join(lines, "\n")
}

// observe observes an external resource for an object, without counting the call.
func (s *scenario) observe(ctx context.Context, o *unstructured.Unstructured, ref external.Ref) (out external.Observation, err error) {
	err = s.withSession(ctx, o, func(session port.Session) error {
		out, err = session.Observe(ctx, ref)
		return err
	})
	return out, err
}

// cleanUp deletes the external resources that the scenario has left.
func (s *scenario) cleanUp(ctx context.Context) {
	s.waitUntilConsistent(ctx)
	_ = s.withSession(ctx, s.object, func(session port.Session) error {
		for _, ref := range s.knownRefs(session) {
			for range 5 {
				o, err := session.Observe(ctx, ref)
				if err != nil || o.Presence != external.Present && o.Presence != external.Deleting {
					break
				}
				if o.Presence == external.Present {
					s.deleteExternal(ctx, session, o, ref)
				}
				s.advance(ctx, max(typicalDuration, s.port.Caps().Settle))
			}
		}
		return nil
	})
	s.advance(ctx, s.port.Caps().Reuse)
}

func (s *scenario) deleteExternal(ctx context.Context, session port.Session, o external.Observation, ref external.Ref) {
	request, err := session.Prepare(external.Delete, o)
	if err != nil {
		return
	}
	key, _ := session.Identify()
	i := external.Intent{Verb: external.Delete, Attempt: 1, Token: s.cluster.randomText("cleanup"), Key: key, Ref: ref, Request: request}
	if o.Mark != nil {
		i.Mark = *o.Mark
	}
	_, _ = s.beginAndPoll(ctx, session, i)
}
