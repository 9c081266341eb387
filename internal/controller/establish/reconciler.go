// Package establish turns definitions of the composition dialect into served kinds: it
// publishes the CustomResourceDefinitions of composites and of the claims for them, and
// starts what serves both; when a definition goes, it deletes the objects of its kinds and
// retires what it made.
package establish

import (
	"context"
	"fmt"
	"slices"
	"time"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/publish"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/engine"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
	"github.com/espalier-dev/espalier/internal/xrd"
)

// Kind is the kind of definitions, in the version that they are stored in: another has
// rules that those written in this one don't follow.
var Kind = v1.GroupVersion.WithKind(v1.DefinitionKind)

// Manager is the field manager of what is written about definitions.
const Manager = "espalier.dev/definition"

// Config is what the controller of definitions needs.
type Config struct {
	Cluster  *cluster.Client
	Known    *cluster.Kinds
	Hub      *watch.Hub
	Engine   *engine.Engine
	Events   telemetry.Recorder
	Registry *Registry
	Library  *Library
	// Published is told of each CustomResourceDefinition as it was written, before its
	// event arrives.
	Published func(*extv1.CustomResourceDefinition)
	// MoreColumns has kubectl get show more of the kinds than the dialect's columns.
	MoreColumns bool
	Now         func() time.Time
	// Kinds makes what serves the kinds, and Held wraps it: it rests while there is a
	// Hold. Definitions themselves don't.
	Kinds Kinds
	Held  func(schema.GroupVersionKind, engine.Reconciler) engine.Reconciler
}

// Reconciler serves definitions.
type Reconciler struct{ Config }

// New returns a reconciler of definitions.
func New(c Config) *Reconciler { return &Reconciler{c} }

// visit is one pass over one definition.
type visit struct {
	key   object.Key
	raw   *unstructured.Unstructured
	entry *entry
	// definition is nil if it can't be read.
	definition *v1.CompositeResourceDefinition
	problems   diag.List

	// composite and claim are where the kinds stand, which the definition asks for.
	composite, claim publish.Standing
}

// valid says whether the definition can be made to kinds as it is.
func (v *visit) valid() bool { return len(v.problems) == 0 }

func (v *visit) offers() bool { return v.definition != nil && v.definition.Spec.ClaimNames != nil }

// Reconcile tells one pass: judge the definition, publish its kinds, serve them, report.
// Each step goes as far as the one before it allows; what served before goes on serving
// until something better is in its place.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	v, out := r.begin(ctx, key)
	if out.Settled() {
		return out
	}
	if err := r.judge(v); err != nil {
		return outcome.Fail(err)
	}
	published := r.publish(ctx, v)
	r.serve(v) // what was published before is served all the same
	switch {
	case published == nil:
		return r.report(ctx, v)
	case v.composite.Reason == publish.Refused || v.claim.Reason == publish.Refused:
		if out := r.report(ctx, v); out.Err != nil {
			return out
		}
	}
	return outcome.Fail(published)
}

// begin loads the definition and puts its finalizers on.
func (r *Reconciler) begin(ctx context.Context, key object.Key) (*visit, outcome.Outcome) {
	raw, ok := r.Hub.Served(Kind, key.Namespace, key.Name)
	entry := r.Registry.entry(key)
	if !ok {
		entry.claim.halt()
		entry.composite.halt()
		r.Registry.forget(key)
		r.Hub.Forget(watch.Subscriber{Key: key})
		return nil, outcome.Done()
	}
	v := &visit{key: key, raw: raw, entry: entry}
	d, err := xrd.Read(raw)
	if err != nil {
		v.problems.Addf("", "can't be read: %v", err)
	} else {
		v.definition = d
		r.Registry.setWants(entry, wants(d))
	}
	if raw.GetDeletionTimestamp() != nil {
		return nil, r.retire(ctx, v)
	}
	return v, r.finalize(ctx, v)
}

// wants are the kinds that a definition asks for.
func wants(d *v1.CompositeResourceDefinition) []want {
	out := []want{{d.CompositeKind().GroupKind(), d.Spec.Names.Plural + "." + d.Spec.Group}}
	if kind, offered := d.ClaimKind(); offered {
		out = append(out, want{kind.GroupKind(), d.Spec.ClaimNames.Plural + "." + d.Spec.Group})
	}
	return out
}

// finalize puts the finalizers on: they are there before anything is made.
func (r *Reconciler) finalize(ctx context.Context, v *visit) outcome.Outcome {
	finalizers := slices.Clone(v.raw.GetFinalizers())
	had := len(finalizers)
	if !slices.Contains(finalizers, v1.DefinitionFinalizer) {
		finalizers = append(finalizers, v1.DefinitionFinalizer)
	}
	if v.offers() && !slices.Contains(finalizers, v1.OfferedFinalizer) {
		finalizers = append(finalizers, v1.OfferedFinalizer)
	}
	if len(finalizers) == had {
		return outcome.Outcome{}
	}
	err := r.write(v, func() (*unstructured.Unstructured, error) {
		return r.Cluster.SetFinalizers(ctx, v.raw, finalizers, Manager)
	})
	if cluster.IsGone(err) {
		return outcome.Overtaken()
	}
	if err != nil {
		r.refused(v, telemetry.FailedFinalizer, "its finalizers can't be put on, and nothing is done for it until they can", err)
		return outcome.Fail(fmt.Errorf("put the finalizers on: %w", err))
	}
	v.entry.refusals.Granted(telemetry.FailedFinalizer)
	return outcome.Outcome{}
}

// write makes a write to the definition, which the visit goes on with.
func (r *Reconciler) write(v *visit, do func() (*unstructured.Unstructured, error)) error {
	answer, err := r.Hub.Write(v.raw, watch.Subscriber{Key: v.key}, do)
	if err == nil {
		v.raw = answer
	}
	return err
}

// wake asks for another pass over a definition.
func (r *Reconciler) wake(key object.Key) {
	r.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}
