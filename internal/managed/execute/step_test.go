package execute_test

import (
	"context"
	"testing"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// slow is a client whose call takes a while.
type slow struct {
	port.Session
	takes time.Duration
}

func (s slow) Begin(ctx context.Context, _ external.Intent) (external.Op, error) {
	select {
	case <-ctx.Done():
		return external.Op{}, ctx.Err()
	case <-time.After(s.takes):
		return external.Op{Done: true}, nil
	}
}

// TestACallIsCanceledWithLeadership makes a call that takes longer than the lease lasts when
// it is started. A renewal of the lease lets the call go on.
func TestACallIsCanceledWithLeadership(t *testing.T) {
	for name, renewed := range map[string]bool{"a lease that is renewed": true, "one that isn't": false} {
		t.Run(name, func(t *testing.T) {
			began, takes := time.Now(), 200*time.Millisecond
			if !renewed {
				takes = time.Hour // nobody waits for it
			}
			until := func() time.Time {
				if renewed {
					return time.Now().Add(50 * time.Millisecond)
				}
				return began.Add(50 * time.Millisecond)
			}
			s := &operation.State{LeaderUntil: until(), Binding: &binding.BindingSpec{Operation: &binding.BindingOperation{Verb: "Update"}}}
			step := operation.Step{Do: operation.Begin, Intent: &external.Intent{Verb: external.Update}}
			limits := execute.Limits{LeaderUntil: until, Now: time.Now}
			if err := execute.Step(context.Background(), slow{takes: takes}, nil, s, step, limits); err != nil {
				t.Fatal(err)
			}
			if ended := s.Answer.Done; ended != renewed {
				t.Errorf("it has ended well: %t; %v", ended, s.Answer.Err)
			}
		})
	}
}

// heedless is a client that looks at no context, as many do.
type heedless struct {
	port.Session
	made *int
}

func (h heedless) Begin(context.Context, external.Intent) (external.Op, error) {
	*h.made++
	return external.Op{Done: true}, nil
}

// TestNoCallAfterLeadership checks leadership between the decision and the call, by the
// controller's clock rather than the wall clock.
func TestNoCallAfterLeadership(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		until time.Time
		made  int
	}{
		"a leader calls": {now.Add(time.Hour), 1},
		"a program without leader election calls": {time.Time{}, 1},
		"a former leader does not call":           {now.Add(-time.Millisecond), 0},
	} {
		t.Run(name, func(t *testing.T) {
			made := 0
			s := &operation.State{Binding: &binding.BindingSpec{Operation: &binding.BindingOperation{Verb: "Create"}}}
			step := operation.Step{Do: operation.Begin, Intent: &external.Intent{Verb: external.Create}}
			limits := execute.Limits{LeaderUntil: func() time.Time { return tc.until }, Now: func() time.Time { return now }}
			if err := execute.Step(context.Background(), heedless{made: &made}, nil, s, step, limits); err != nil {
				t.Fatal(err)
			}
			if made != tc.made || s.Answer == nil || (s.Answer.Err == nil) != (made == 1) {
				t.Errorf("%d calls were made, and %+v is known", made, s.Answer)
			}
		})
	}
}
