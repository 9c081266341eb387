// Package definition reconciles CompositeResourceDefinitions: it publishes the
// CustomResourceDefinitions of composites and of their claims and starts the controllers of both.
// When a definition is deleted, it deletes the objects of its kinds, then stops the controllers and
// deletes the CustomResourceDefinitions.
package definition

import (
	"context"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Kind is the kind of definitions, in its storage version: the validation rules of another version
// reject definitions that were written in this one.
var Kind = v1.GroupVersion.WithKind(v1.DefinitionKind)

// Manager is the field manager of what is written about definitions.
const Manager = "espalier.dev/definition"

// Config is what the controller of definitions needs.
type Config struct {
	serving.Config
	Registry     *Registry
	Compositions *CompositionCache
	// Reconcilers creates the reconcilers of the kinds.
	Reconcilers Reconcilers
}

// Dialect is the dialect of compositions.
type Dialect struct{ Config }

// New returns the reconciler of definitions.
func New(c Config) *serving.Reconciler {
	c.Kind = Kind
	return &serving.Reconciler{Config: c.Config, Dialect: &Dialect{c}}
}

type session struct {
	*serving.Definition
	*Dialect
	memory *memory
	// definition is nil if it can't be read.
	definition *v1.CompositeResourceDefinition
	problems   diag.List

	// composite and claim report whether the kinds that the definition requests are served.
	composite, claim *serving.Readiness
}

func (v *session) isValid() bool { return len(v.problems) == 0 }

func (v *session) offersClaim() bool {
	return v.definition != nil && v.definition.Spec.ClaimNames != nil
}

// Managers are the field managers of what is written to definitions.
func (r *Dialect) Managers() (object, status string) { return Manager, Manager }

// Forget stops the controllers of a definition that is gone.
func (r *Dialect) Forget(key object.Key) {
	m := r.Registry.Entry(key).Memory
	m.claim.Stop()
	m.composite.Stop()
	r.Registry.Forget(key)
}

// Open begins a reconcile: it reads the definition.
func (r *Dialect) Open(d *serving.Definition) serving.Session {
	entry := r.Registry.Entry(d.Key)
	v := &session{Definition: d, Dialect: r, memory: entry.Memory, composite: &serving.Readiness{}, claim: &serving.Readiness{}}
	definition, err := xrd.Read(d.Unstructured)
	if err != nil {
		v.problems.Addf("", "cannot be decoded: %v", err)
		return v
	}
	v.definition = definition
	r.Registry.SetDefines(entry, defines(definition))
	return v
}

func defines(d *v1.CompositeResourceDefinition) []serving.Kind {
	out := []serving.Kind{{GroupKind: d.CompositeKind().GroupKind(), Name: d.Spec.Names.Plural + "." + d.Spec.Group}}
	if kind, offered := d.ClaimKind(); offered {
		out = append(out, serving.Kind{GroupKind: kind.GroupKind(), Name: d.Spec.ClaimNames.Plural + "." + d.Spec.Group})
	}
	return out
}

// Finalizers are one for each kind. They are added before anything is created.
func (v *session) Finalizers() []string {
	if v.offersClaim() {
		return []string{v1.DefinitionFinalizer, v1.OfferedFinalizer}
	}
	return []string{v1.DefinitionFinalizer}
}

// Compile validates the definition.
func (v *session) Compile(context.Context) reconcile.Result {
	if err := v.validate(); err != nil {
		return reconcile.Fail(err)
	}
	return reconcile.Result{}
}

// Serve starts the controllers of the definition's kinds, and sets the current compositions in those that run.
func (v *session) Serve(context.Context) error {
	if v.composite.Ready {
		v.memory.setGood(v.definition)
	}
	composite, claim := v.ownedCRDs()
	v.serve(&v.memory.composite, composite, v.Reconcilers.Composite)
	v.serve(&v.memory.claim, claim, v.Reconcilers.Claim)
	return nil
}

// Report writes the status, and then rewrites objects that are stored in a former version.
func (v *session) Report(ctx context.Context, publishErr, _ error) reconcile.Result {
	out := v.report(ctx)
	switch {
	case out.Err != nil:
		return out
	case publishErr != nil:
		return reconcile.Fail(publishErr)
	case !kube.MayWrite(ctx): // another installation rewrites them
		return out
	}
	return v.migrate(ctx, out)
}

// Close has nothing to end.
func (v *session) Close() {}
