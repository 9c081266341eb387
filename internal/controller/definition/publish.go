package definition

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// kindState is where the definition's kind stands.
type kindState struct {
	// ready says that the API server serves the kind as the graph wants it.
	ready bool
	// reason and message say why it isn't ready.
	reason, message string
	// unknown says that this is a matter of waiting.
	unknown bool
}

// Reasons of a kind that isn't ready.
const (
	kindNotOwned     = "KindNotOwned"
	kindBreaking     = "BreakingChange"
	kindEstablishing = "Establishing"
	kindRefused      = "Failed"
	kindTerminating  = "Terminating"
	kindNotAccepted  = "GraphNotAccepted"
)

// publish makes the API server serve the kind as the graph wants it, unless the
// kind is somebody else's or the change would break its users.
func (r *Reconciler) publish(ctx context.Context, v *visit) error {
	if v.compiled.graph == nil {
		v.kind = kindState{unknown: true, reason: kindNotAccepted, message: "the graph is not accepted"}
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
		return r.write(ctx, v, wanted, nil)
	case !crd.BelongsTo(current, v.owner):
		v.kind = kindState{reason: kindNotOwned, message: foreign(current)}
		return nil
	case current.DeletionTimestamp != nil:
		v.kind = kindState{unknown: true, reason: kindTerminating, message: "the former CustomResourceDefinition is being deleted; it is made anew once it is gone"}
		return nil
	}
	if changes := crd.Breaking(current, wanted); len(changes) > 0 && v.raw.GetAnnotations()[v1alpha1.AllowBreakingAnnotation] != "true" {
		texts := make([]string, len(changes))
		for i, c := range changes {
			texts[i] = fmt.Sprintf("%s: %s", c.Path, c.What)
		}
		v.kind.reason = kindBreaking
		v.kind.message = fmt.Sprintf("the change would break instances that exist: %s. Annotate the definition with %s: \"true\" to go ahead",
			strings.Join(texts, "; "), v1alpha1.AllowBreakingAnnotation)
		return nil
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

// write applies the CustomResourceDefinition, if it isn't as wanted already, and
// waits, by its event, until it is established.
func (r *Reconciler) write(ctx context.Context, v *visit, wanted, current *apiextensionsv1.CustomResourceDefinition) error {
	u, err := asConfiguration(wanted)
	if err != nil {
		return err
	}
	if current != nil && asWanted(current, u) {
		v.kind.stands(current)
		return nil
	}
	var answer *unstructured.Unstructured
	if current == nil {
		answer, err = r.Cluster.Create(ctx, u, v1alpha1.InstanceManager)
	} else {
		answer, err = r.Cluster.Update(ctx, u, current.UID, v1alpha1.InstanceManager)
	}
	v.kind.unknown, v.kind.reason, v.kind.message = true, kindEstablishing, "waiting for the API server to serve the kind"
	switch {
	case err == nil:
		var written apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &written); err != nil {
			return fmt.Errorf("decode %s: %w", object.KeyOf(u), err)
		}
		r.Published(&written)
		if current != nil {
			v.kind.stands(&written) // otherwise its event tells when it is established
		}
		return nil
	case current == nil && cluster.IsTaken(err):
		return r.taken(ctx, v, u.GetName())
	case cluster.IsGone(err):
		return nil // its event brings the next pass
	case cluster.Passes(err):
		return fmt.Errorf("apply %s: %w", object.KeyOf(u), err)
	}
	v.kind.unknown, v.kind.reason, v.kind.message = false, kindRefused, err.Error()
	return nil
}

// taken finds out who has the name that the CustomResourceDefinition would have:
// two kinds may be the same in plural, Vpc and VPC say.
func (r *Reconciler) taken(ctx context.Context, v *visit, name string) error {
	o, err := r.Cluster.Get(ctx, crd.Kind, "", name)
	if apierrors.IsNotFound(err) {
		r.wake(v.key)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	var c apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
		return fmt.Errorf("decode CustomResourceDefinition %s: %w", name, err)
	}
	switch {
	case kindOf(&c) != v.wants:
		v.kind = kindState{reason: kindNotOwned, message: fmt.Sprintf("CustomResourceDefinition %s has the plural of %s already: %s", name, v.wants.Kind, foreign(&c))}
	case !crd.BelongsTo(&c, v.owner):
		v.kind = kindState{reason: kindNotOwned, message: foreign(&c)}
	} // else it is ours and its event is on its way
	return nil
}

// asWanted says whether a CustomResourceDefinition is what was applied, and
// nobody has changed it since.
func asWanted(current *apiextensionsv1.CustomResourceDefinition, wanted *unstructured.Unstructured) bool {
	if current.Annotations[v1alpha1.AppliedAnnotation] != wanted.GetAnnotations()[v1alpha1.AppliedAnnotation] {
		return false
	}
	owned := &unstructured.Unstructured{Object: map[string]any{}}
	owned.SetManagedFields(current.ManagedFields)
	return len(plan.Lost(wanted, owned, v1alpha1.InstanceManager)) == 0
}

// stands takes over whether the kind is served.
func (k *kindState) stands(c *apiextensionsv1.CustomResourceDefinition) {
	k.ready = crd.Established(c)
	k.unknown = !k.ready
	if k.unknown {
		k.reason, k.message = kindEstablishing, establishing(c)
	}
}

func establishing(c *apiextensionsv1.CustomResourceDefinition) string {
	for _, cond := range c.Status.Conditions {
		if cond.Status == apiextensionsv1.ConditionFalse {
			return fmt.Sprintf("%s: %s", cond.Type, cond.Message)
		}
	}
	return "waiting for the API server to serve the kind"
}

// asConfiguration is the CustomResourceDefinition as a signed apply
// configuration.
func asConfiguration(c *apiextensionsv1.CustomResourceDefinition) (*unstructured.Unstructured, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return nil, fmt.Errorf("encode CustomResourceDefinition %s: %w", c.Name, err)
	}
	u := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	inventory.Sign(u, u.GetLabels()[v1alpha1.VersionLabel])
	return u, nil
}
