package establish

import (
	"context"
	"errors"
	"fmt"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/controller/publish"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// publish makes the API server serve the kinds of a valid definition, unless they are
// somebody else's.
func (r *Reconciler) publish(ctx context.Context, v *visit) error {
	if !v.valid() {
		return nil
	}
	var failed, failedToo error
	v.composite, failed = r.put(ctx, v, v.entry.judged.composite)
	if v.composite.Ready {
		v.entry.accept(v.definition)
	}
	if claim := v.entry.judged.claim; claim != nil {
		v.claim, failedToo = r.put(ctx, v, claim)
	}
	return errors.Join(failed, failedToo)
}

// accept takes a definition as that which the kinds are served by.
func (e *entry) accept(d *v1.CompositeResourceDefinition) {
	if e.good != nil && e.good.UID == d.UID && e.good.Generation == d.Generation {
		return
	}
	e.good, e.goodMark = d, object.Digest([]any{d.UID, d.Spec})
}

// served is the definition that the kinds are served by: the last one that they were
// published for. After a restart it is read from the CustomResourceDefinition.
func (r *Reconciler) served(v *visit) *v1.CompositeResourceDefinition {
	uid := v.raw.GetUID()
	if good := v.entry.good; good != nil && good.UID == uid {
		return good
	}
	composite, _ := r.owned(v)
	if composite == nil || composite.DeletionTimestamp != nil {
		return nil
	}
	d := &v1.CompositeResourceDefinition{}
	if !crd.Noted(composite, &d.Spec) {
		return nil
	}
	d.SetGroupVersionKind(Kind)
	d.Name, d.UID = v.key.Name, uid
	v.entry.accept(d)
	return d
}

// put makes the API server serve one kind.
func (r *Reconciler) put(ctx context.Context, v *visit, wanted *extv1.CustomResourceDefinition) (publish.Standing, error) {
	current, exists := r.Known.CRD(crd.GroupKind(wanted))
	if exists {
		if standing, is := inTheWay(wanted, current, v.key.Name); is {
			return standing, nil
		}
	}
	standing, taken, err := r.publisher().Apply(ctx, wanted, current)
	if err != nil || !taken {
		return standing, err
	}
	// Two kinds may be the same in plural.
	found, err := r.publisher().Find(ctx, wanted.Name)
	if apierrors.IsNotFound(err) {
		r.wake(v.key)
		return standing, nil
	}
	if err != nil {
		return standing, err
	}
	if blocked, is := inTheWay(wanted, found, v.key.Name); is {
		return blocked, nil
	}
	return standing, nil // else it is ours and its event is on its way
}

// inTheWay says whether a CustomResourceDefinition that exists keeps another from being put
// there.
func inTheWay(wanted, current *extv1.CustomResourceDefinition, definition string) (publish.Standing, bool) {
	whose := whose(current, definition)
	switch {
	case current.Name != wanted.Name || crd.GroupKind(current) != crd.GroupKind(wanted):
		if whose == "" {
			whose = "exists already"
		}
		return publish.Standing{Reason: publish.NotOwned, Message: fmt.Sprintf("CustomResourceDefinition %s, of the kind %s of %s, %s; it is left alone. Choose other names",
			current.Name, current.Spec.Names.Kind, current.Spec.Group, whose)}, true
	case whose != "":
		return publish.Standing{Reason: publish.NotOwned, Message: fmt.Sprintf("CustomResourceDefinition %s %s; it is left alone. Choose another kind or group", current.Name, whose)}, true
	case current.DeletionTimestamp != nil:
		return publish.Leaving(), true
	}
	return publish.Standing{}, false
}

func (r *Reconciler) publisher() publish.Publisher {
	return publish.Publisher{Cluster: r.Cluster, Published: r.Published}
}
