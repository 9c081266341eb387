package definition

import (
	"context"
	"slices"

	"github.com/espalier-dev/espalier/internal/serving"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Wanted are the CustomResourceDefinitions of a valid definition.
func (v *session) Wanted(context.Context) ([]*serving.Wanted, error) {
	if !v.isValid() {
		return nil, nil
	}
	composite := v.wanted(&v.memory.composite, v.memory.validated.composite)
	v.composite = &composite.Readiness
	out := []*serving.Wanted{composite}
	if v.memory.validated.claim != nil {
		claim := v.wanted(&v.memory.claim, v.memory.validated.claim)
		v.claim = &claim.Readiness
		out = append(out, claim)
	}
	return out, nil
}

func (v *session) wanted(m *running, wanted *extv1.CustomResourceDefinition) *serving.Wanted {
	out := &serving.Wanted{CRD: wanted, Owner: func(c *extv1.CustomResourceDefinition) string {
		if owner := otherOwner(c, v.Key.Name); owner != "" || c.Name == wanted.Name {
			return owner
		}
		return "exists already: it defines the kind with another plural than " + wanted.Name
	}}
	out.Review = func(_ context.Context, current *extv1.CustomResourceDefinition) (write bool, err error) {
		readiness, waits := awaitsMigration(current, wanted, m.migration.Problem())
		if waits {
			out.Readiness = readiness
		}
		return !waits, nil
	}
	return out
}

// lastGood is the definition that the kinds were last published for. After a restart it is read from
// the CustomResourceDefinition.
func (v *session) lastGood() *v1.CompositeResourceDefinition {
	uid := v.GetUID()
	if good := v.memory.good; good != nil && good.UID == uid {
		current := *good
		current.Annotations = v.GetAnnotations() // they apply at once, whether the spec is accepted or not
		v.memory.setGood(&current)
		return v.memory.good
	}
	composite, _ := v.ownedCRDs()
	if composite == nil || composite.DeletionTimestamp != nil {
		return nil
	}
	d := &v1.CompositeResourceDefinition{}
	if !install.ReadAccepted(composite, &d.Spec) {
		return nil
	}
	d.SetGroupVersionKind(Kind)
	d.Name, d.UID, d.Annotations = v.Key.Name, uid, v.GetAnnotations()
	v.memory.setGood(d)
	return d
}

func (m *memory) setGood(d *v1.CompositeResourceDefinition) {
	if m.good != nil && m.good.UID == d.UID && m.good.Generation == d.Generation && slices.Equal(xrd.Annotations(m.good), xrd.Annotations(d)) {
		return
	}
	m.good, m.goodDigest = d, digestOf(d)
}

// digestOf covers what reconciles of the definition's instances depend on.
func digestOf(d *v1.CompositeResourceDefinition) string {
	return object.Digest([]any{d.UID, d.Spec, xrd.Annotations(d)})
}
