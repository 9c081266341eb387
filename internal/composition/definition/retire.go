package definition

import (
	"context"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/ending"
)

// Endings delete the claims, then the composites, of all namespaces, and then their CRDs. Both kinds stay served
// meanwhile, because claims delete their composites.
func (v *session) Endings(context.Context) []*serving.Ending {
	composite, claim := v.ownedCRDs()
	claimName := ""
	if v.offersClaim() {
		claimName = v.definition.Spec.ClaimNames.Plural + "." + v.definition.Spec.Group
	}
	serveComposites := func(context.Context) { v.serve(&v.memory.composite, composite, v.Reconcilers.Composite) }
	return []*serving.Ending{
		v.ending(v1.OfferedFinalizer, &v.memory.claim, claim, claimName, func(ctx context.Context) {
			serveComposites(ctx)
			v.serve(&v.memory.claim, claim, v.Reconcilers.Claim)
		}),
		v.ending(v1.DefinitionFinalizer, &v.memory.composite, composite, v.Key.Name, serveComposites),
	}
}

func (v *session) ending(finalizer string, m *running, c *extv1.CustomResourceDefinition, name string, serve func(context.Context)) *serving.Ending {
	e := &serving.Ending{
		Policy:    ending.Policy{DeleteInstances: true, DeleteCRD: true, AwaitCRD: true},
		Finalizer: finalizer, CRD: c, CRDName: name, Running: &m.Running, Serve: serve,
	}
	if c != nil {
		served := false
		if e.Kind, served = workingVersion(c); !served {
			e.Unreadable = "CustomResourceDefinition " + c.Name + " serves no version"
		}
	}
	return e
}
