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
)

// Reasons of a kind that isn't ready, beside those of publish.
const (
	kindBreaking    = "BreakingChange"
	kindNotAccepted = "GraphNotAccepted"
)

// publish makes the API server serve the kind as the graph wants it, unless the
// kind is somebody else's or the change would break its users.
func (r *Reconciler) publish(ctx context.Context, v *visit) error {
	if v.compiled.graph == nil {
		v.kind = publish.Standing{Unknown: true, Reason: kindNotAccepted, Message: "the graph is not accepted"}
		return nil
	}
	g := v.compiled.graph
	wanted := crd.For(g, v.spec.Schema, v.owner, r.Version)
	if err := crd.Accept(wanted, v.spec); err != nil {
		return err
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
	if !r.converted(v, wanted, current) {
		return nil
	}
	if changes := crd.Breaking(current, wanted); len(changes) > 0 && v.raw.GetAnnotations()[v1alpha1.AllowBreakingAnnotation] != "true" {
		texts := make([]string, len(changes))
		for i, c := range changes {
			texts[i] = fmt.Sprintf("%s: %s", c.Path, c.What)
		}
		v.kind.Reason = kindBreaking
		v.kind.Message = fmt.Sprintf("the change would break instances that exist: %s. Annotate the definition with %s: \"true\" to go ahead",
			strings.Join(texts, "; "), v1alpha1.AllowBreakingAnnotation)
		return nil
	}
	if stranded(v, wanted, current) {
		return nil
	}
	if inconvertible, err := r.tryConversions(ctx, v, wanted, current); inconvertible || err != nil {
		return err
	}
	return r.write(ctx, v, wanted, current)
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
		return r.taken(ctx, v, wanted.Name)
	}
	return err
}

func (r *Reconciler) publisher() publish.Publisher {
	return publish.Publisher{Cluster: r.Cluster, Published: r.Published}
}

// taken finds out who has the name that the CustomResourceDefinition would have:
// two kinds may be the same in plural, Vpc and VPC say.
func (r *Reconciler) taken(ctx context.Context, v *visit, name string) error {
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
