package external

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/external/port"
	"github.com/espalier-dev/espalier/internal/operation"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// carryOut does one step and adds what came of it to what is known. It settles the
// pass if somebody has changed what it was decided on, whose event brings another.
func (r *Reconciler) carryOut(ctx context.Context, v *visit, step operation.Step) outcome.Outcome {
	err := r.do(ctx, v, step)
	switch {
	case cluster.IsGone(err) && !cluster.IsUnserved(err), errors.Is(v.state.LookFailed, port.ErrNotYet):
		return outcome.Done()
	case err != nil:
		err = fmt.Errorf("%s: %w", step.Do, err)
		return r.report(ctx, v, operation.Step{Do: operation.Rest, Synced: failedSaid(err), Err: err})
	}
	if step.Event.Reason != "" {
		r.Events.Event(v.object, telemetry.Normal, step.Event.Reason, step.Event.Message)
	}
	if step.Do == operation.Unclaim && len(v.object.GetFinalizers()) == 0 {
		return outcome.Done() // it is gone; its binding is seen to when that has its turn
	}
	return outcome.Outcome{}
}

func (r *Reconciler) do(ctx context.Context, v *visit, step operation.Step) error {
	s := &v.state
	switch step.Do {
	case operation.Claim:
		return r.setFinalizers(ctx, v, append(slices.Clone(v.object.GetFinalizers()), resource.Finalizer))
	case operation.Unclaim:
		return r.setFinalizers(ctx, v, slices.DeleteFunc(slices.Clone(v.object.GetFinalizers()), func(f string) bool { return f == resource.Finalizer }))
	case operation.Reserve:
		made, taken, err := r.reserve(ctx, v, bindingName(step.Binding), step.Binding, nil)
		v.binding, s.Taken = made, taken
		return err
	case operation.Record:
		if err := r.record(ctx, v, step.Binding); err != nil {
			return err
		}
		s.Stored(step.Binding)
	case operation.Forget:
		return r.forget(ctx, v)
	case operation.Observe:
		s.Look, s.LookFailed = nil, nil
		look, err := v.session.Observe(ctx, step.Ref)
		if s.LookFailed = err; err == nil {
			s.Look = &look
		}
	case operation.Search:
		s.Found, s.LookFailed = v.session.Find(ctx, keyOf(s), external.Mark{ID: s.Binding.Mark, Owner: s.MarkOwner})
		s.Searched = s.LookFailed == nil
	case operation.Trace:
		s.Traces, s.LookFailed = v.session.Find(ctx, keyOf(s), external.Mark{Owner: s.MarkOwner})
		s.Traced = s.LookFailed == nil
	case operation.Prepare:
		var seen external.Observation
		if s.Look != nil {
			seen = *s.Look
		}
		s.Requests[step.Verb], s.PrepareFailed = v.session.Prepare(step.Verb, seen)
	case operation.Begin:
		s.Answered(v.session.Begin(ctx, *step.Intent))
	case operation.Poll:
		op := s.Binding.Operation
		s.Answered(v.session.Poll(ctx, external.Op{Resume: op.Resume, Ref: external.Ref(op.Ref)}))
	case operation.ReserveID:
		return r.reserveID(ctx, v, step.Ref)
	case operation.Project:
		s.Projected = true
		return r.annotate(ctx, v, resource.ExternalNameAnnotation, string(step.Ref))
	case operation.LateInitialize:
		s.LateInitialized = true
		return r.lateInitialize(ctx, v, s.Look.LateInit)
	case operation.Publish:
		s.Published = true
		return r.publish(ctx, v, s.Look.Connection)
	case operation.Rest:
	}
	return nil
}

func keyOf(s *operation.State) external.Key {
	k := s.Binding.Key
	return external.Key{Scope: k.Scope, Type: k.Type, Name: k.Name}
}

func (r *Reconciler) setFinalizers(ctx context.Context, v *visit, finalizers []string) error {
	answer, err := r.write(v, v.object, func() (*unstructured.Unstructured, error) {
		return r.Cluster.SetFinalizers(ctx, v.object, finalizers, Manager)
	})
	if err != nil {
		return err
	}
	v.object = answer
	return nil
}

// annotate writes an annotation of the managed resource.
func (r *Reconciler) annotate(ctx context.Context, v *visit, key, value string) error {
	return r.patch(ctx, v, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// patch changes the managed resource as it was read.
func (r *Reconciler) patch(ctx context.Context, v *visit, change map[string]any) error {
	answer, err := r.write(v, v.object, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Patch(ctx, v.object, change, Manager)
	})
	if err != nil {
		return err
	}
	v.object = answer
	return nil
}

// lateInitialize sets fields of spec.forProvider that nobody has set.
func (r *Reconciler) lateInitialize(ctx context.Context, v *visit, chosen map[string]any) error {
	wanted, _, _ := unstructured.NestedMap(v.object.Object, "spec", "forProvider")
	if missing := unset(wanted, chosen); len(missing) > 0 {
		return r.patch(ctx, v, map[string]any{"spec": map[string]any{"forProvider": missing}})
	}
	return nil
}

// unset are the fields of chosen that are not in wanted. Lists are taken as a whole.
func unset(wanted, chosen map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range chosen {
		has, set := wanted[key]
		below, isMap := value.(map[string]any)
		within, wasMap := has.(map[string]any)
		switch {
		case !set:
			out[key] = value
		case isMap && wasMap:
			if missing := unset(within, below); len(missing) > 0 {
				out[key] = missing
			}
		}
	}
	return out
}
