package definition

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/controller/publish"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/schema"
)

// kindBreaking is the reason of a kind that isn't ready, beside those of publish: a change
// would break who uses it.
const kindBreaking = "BreakingChange"

// publish makes the API server serve the kind as the graph wants it, unless the
// kind is somebody else's or the change would break its users.
func (r *Reconciler) publish(ctx context.Context, v *visit) error {
	if v.lead.compilation == nil {
		return r.unpublished(ctx, v)
	}
	g := v.lead.last.graph
	wanted := crd.For(g, v.lead.spec.Schema, v.owner, crd.Options{Version: r.Version, MoreColumns: r.MoreColumns})
	if v.lead.number == 0 {
		if err := crd.Accept(wanted, v.spec); err != nil {
			return err
		}
	}
	current, exists := r.Kinds.CRD(g.Kind.GroupKind())
	switch {
	case !exists:
		if !r.converted(v, wanted, nil) {
			return nil
		}
		return r.write(ctx, v, wanted, nil)
	case !crd.BelongsTo(current, v.owner):
		v.kind = publish.Standing{Reason: publish.NotOwned, Message: foreign(current)}
		return nil
	case current.DeletionTimestamp != nil:
		v.kind = publish.Leaving()
		return nil
	}
	moves := crd.Hub(current) != crd.Hub(wanted)
	if !moves && v.target.Why != revision.Latest && len(crd.Breaking(current, wanted)) > 0 && len(crd.Lacking(current, wanted)) == 0 {
		wanted = crd.Keeping(wanted, current) // an earlier revision is served by the schema of a later one
	}
	if !r.converted(v, wanted, current) {
		return nil
	}
	configuration, err := crd.Configuration(wanted)
	if err != nil {
		return err
	}
	if crd.AsApplied(current, configuration) {
		v.kind = publish.Of(current) // as at nearly every pass, so that nothing is compared for it
		return nil
	}
	changes := crd.Breaking(current, wanted)
	allowed := v.raw.GetAnnotations()[v1alpha1.AllowBreakingAnnotation] == "true"
	switch {
	case moves && v.inWaves():
		v.kind.Reason = kindBreaking
		v.kind.Message = fmt.Sprintf("the change can't go in waves, since instances are composed in the version that is stored, which would be %s and not %s any more. Take spec.rollout away for it", crd.Hub(wanted), crd.Hub(current))
		return nil
	case len(changes) == 0:
	case !allowed:
		others, err := r.dependants(ctx, v, wanted)
		if others != "" {
			others = "; and definitions that compose the kind: " + others
		}
		v.kind.Reason = kindBreaking
		v.kind.Message = fmt.Sprintf("the change would break instances that exist: %s%s. Annotate the definition with %s: \"true\" to go ahead",
			broken(changes), others, v1alpha1.AllowBreakingAnnotation)
		return err
	case v.inWaves():
		v.kind.Reason = kindBreaking
		v.kind.Message = fmt.Sprintf("the change can't go in waves, since the kind has no room for instances before and after it at once: %s. Take spec.rollout away to let it reach all instances at once, or leave in what would break them", broken(changes))
		return nil
	}
	if stranded(v, wanted, current) {
		return nil
	}
	if inconvertible, err := r.tryConversions(ctx, v, wanted, current); inconvertible || err != nil {
		return err
	}
	if !allowed {
		if others, err := r.dependants(ctx, v, wanted); err != nil || others != "" {
			v.kind.Reason = kindBreaksOthers
			v.kind.Message = fmt.Sprintf("the change would break definitions that compose the kind: %s. Change these first, or annotate this definition with %s: \"true\" to go ahead",
				others, v1alpha1.AllowBreakingAnnotation)
			return err
		}
	}
	return r.write(ctx, v, wanted, current)
}

// broken tells what a change would break, each by its path.
func broken(changes []schema.Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = fmt.Sprintf("%s: %s", c.Path, c.What)
	}
	return strings.Join(texts, "; ")
}

// inWaves says whether what is to serve reaches the instances one after the other.
func (v *visit) inWaves() bool {
	return v.waves.Any() && v.status.ServingRevision != 0 && v.status.ServingRevision != v.lead.number && v.target.Why != revision.RolledBack
}

// unpublished says where the kind stands while nothing new can be published: it may be
// served as it was.
func (r *Reconciler) unpublished(ctx context.Context, v *visit) error {
	v.kind = publish.Standing{Unknown: true, Reason: awaiting, Message: awaited(v1alpha1.DefinitionKindReady)}
	if current, _, ok := r.owned(ctx, v); ok && v.status.ServingRevision != 0 {
		v.kind = publish.Of(current)
	}
	return nil
}

// foreign says whose a CustomResourceDefinition is that the definition can't have.
func foreign(c *apiextensionsv1.CustomResourceDefinition) string {
	if owner, ok := ownerKey(c); ok {
		return fmt.Sprintf("the kind %s of %s is defined by %s already", c.Spec.Names.Kind, c.Spec.Group, owner)
	}
	return fmt.Sprintf("CustomResourceDefinition %s exists already and is not from a definition; it is left alone. Choose another kind or group", c.Name)
}

// write applies the CustomResourceDefinition and waits, by its event, until it is
// established.
func (r *Reconciler) write(ctx context.Context, v *visit, wanted, current *apiextensionsv1.CustomResourceDefinition) error {
	standing, taken, err := r.publisher().Apply(ctx, wanted, current)
	v.kind = standing
	if taken {
		return r.occupied(ctx, v, wanted.Name)
	}
	return err
}

func (r *Reconciler) publisher() publish.Publisher {
	return publish.Publisher{Cluster: r.Cluster, Published: r.Published}
}

// occupied finds out who has the name that the CustomResourceDefinition would have:
// two kinds may be the same in plural, Vpc and VPC say.
func (r *Reconciler) occupied(ctx context.Context, v *visit, name string) error {
	c, err := r.publisher().Find(ctx, name)
	if apierrors.IsNotFound(err) {
		r.wake(v.key)
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case crd.GroupKind(c) != v.wants:
		v.kind = publish.Standing{Reason: publish.NotOwned, Message: fmt.Sprintf("CustomResourceDefinition %s has the plural of %s already: %s", name, v.wants.Kind, foreign(c))}
	case !crd.BelongsTo(c, v.owner):
		v.kind = publish.Standing{Reason: publish.NotOwned, Message: foreign(c)}
	} // else it is ours and its event is on its way
	return nil
}
