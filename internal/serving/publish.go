package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Publisher writes CustomResourceDefinitions.
type Publisher struct {
	Cluster *kube.Client
	// Published is called with each CustomResourceDefinition that was written or found, before its event arrives. A
	// watch that breaks before then delivers neither this event nor the deletion's.
	Published func(*apiextensionsv1.CustomResourceDefinition)
}

// Readiness is whether the API server serves one of a definition's kinds.
type Readiness struct {
	// Ready says that the API server serves the desired kind.
	Ready bool
	// Reason and Message say why it isn't ready.
	Reason  Reason
	Message string
	// Unknown says that the API server is expected to serve it without a further change.
	Unknown bool
}

// Reason says why a kind isn't ready, in one word.
type Reason string

// Reasons of a kind that isn't ready, in every dialect.
const (
	NotOwned     Reason = "KindNotOwned"
	TooManyKinds Reason = "TooManyKinds"
	Establishing Reason = "Establishing"
	Refused      Reason = "Failed"
	Terminating  Reason = "Terminating"
)

// Wanted is a CustomResourceDefinition that a definition wants to publish.
type Wanted struct {
	CRD *apiextensionsv1.CustomResourceDefinition
	// Owner names the owner of a CustomResourceDefinition, as the end of a sentence; empty if it
	// is the definition's own or may become its own.
	Owner func(*apiextensionsv1.CustomResourceDefinition) string
	// Review reports whether CRD may replace the current one, which is nil if there is none. It may change CRD. If it
	// returns false, it sets Readiness. Optional.
	Review func(ctx context.Context, current *apiextensionsv1.CustomResourceDefinition) (write bool, err error)
	// RecordsTakeover says that the time of a takeover from another engine is recorded, because that engine's children
	// have labels only.
	RecordsTakeover bool

	// Readiness is the result of publishing it.
	Readiness Readiness
}

// publish makes the API server serve the kinds of a definition, unless another object owns them. refused says that the
// API server refused one, so the status should say so.
func (r *Reconciler) publish(ctx context.Context, key object.Key, s Session) (refused bool, err error) {
	wanted, err := s.Wanted(ctx)
	for _, w := range wanted {
		err = errors.Join(err, r.publishOne(ctx, key, w))
		refused = refused || w.Readiness.Reason == Refused
	}
	return refused, err
}

func (r *Reconciler) publishOne(ctx context.Context, key object.Key, w *Wanted) error {
	current, exists := r.Kinds.WholeCRD(crd.GroupKind(w.CRD))
	if exists {
		if readiness, blocked := w.blockedBy(current); blocked {
			w.Readiness = readiness
			return nil
		}
	} else if readiness, refused := r.refusesNew(key, w.CRD); refused {
		w.Readiness = readiness
		return nil
	}
	if w.Review != nil {
		if write, err := w.Review(ctx, current); err != nil || !write {
			return err
		}
	}
	if w.RecordsTakeover {
		install.RecordTakeover(w.CRD, current, r.Now())
	}
	readiness, nameTaken, err := r.publisher().Apply(ctx, w.CRD, current)
	w.Readiness = readiness
	if err != nil || !nameTaken {
		return err
	}
	// Two kinds may have the same plural: Vpc and VPC, say.
	found, err := r.publisher().Find(ctx, w.CRD.Name)
	if apierrors.IsNotFound(err) {
		r.EnqueueDefinition(key)
		return nil
	}
	if err != nil {
		return err
	}
	if readiness, blocked := w.blockedBy(found); blocked {
		w.Readiness = readiness
	} // else it is the definition's, and its event is on its way
	return nil
}

// Only a kind that does not exist yet is refused: what exists is not taken away.
func (r *Reconciler) refusesNew(key object.Key, wanted *apiextensionsv1.CustomResourceDefinition) (Readiness, bool) {
	group := wanted.Spec.Group
	if problem := object.GroupProblem(group); problem != "" { // of a definition that was accepted before this was refused
		return notOwned("%s", problem), true
	}
	if version := r.Kinds.OtherServer(group); version != "" {
		return notOwned("API group %s is served by APIService %s.%s, and not from CustomResourceDefinitions. Choose another group", group, version, group), true
	}
	if key.Namespace == "" || r.MaxKindsPerNamespace == 0 {
		return Readiness{}, false
	}
	existing := r.Kinds.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool {
		owner, owned := crd.Owner(c)
		return owned && owner.Namespace == key.Namespace
	})
	if len(existing) < r.MaxKindsPerNamespace {
		return Readiness{}, false
	}
	return Readiness{Reason: TooManyKinds, Message: fmt.Sprintf("the ResourceGroups of namespace %s define %d kinds, and %s is %d. Delete a CustomResourceDefinition that is no longer needed, or ask an administrator to raise the limit",
		key.Namespace, len(existing), MaxKindsPerNamespaceField, r.MaxKindsPerNamespace)}, true
}

func (r *Reconciler) publisher() Publisher {
	return Publisher{Cluster: r.Cluster, Published: r.Published}
}

// The CustomResourceDefinition exists, and keeps the wanted one from being published.
func (w *Wanted) blockedBy(current *apiextensionsv1.CustomResourceDefinition) (Readiness, bool) {
	owner := w.Owner(current)
	switch {
	case crd.GroupKind(current) != crd.GroupKind(w.CRD):
		return notOwned("CustomResourceDefinition %s exists with kind %[3]s, not %[2]s: it %[4]s. Choose another kind or plural",
			current.Name, w.CRD.Spec.Names.Kind, current.Spec.Names.Kind, cmp.Or(owner, "is not changed")), true
	case owner != "":
		return notOwned("CustomResourceDefinition %s %s; it is not changed. Choose another kind or group", current.Name, owner), true
	case current.DeletionTimestamp != nil:
		return terminating(), true
	}
	return Readiness{}, false
}

func notOwned(format string, args ...any) Readiness {
	return Readiness{Reason: NotOwned, Message: fmt.Sprintf(format, args...)}
}

func terminating() Readiness {
	return Readiness{Unknown: true, Reason: Terminating, Message: "waiting for the former CustomResourceDefinition to be deleted; it is recreated then"}
}

// ReadinessOf is the readiness of a kind with this CustomResourceDefinition, which is up to date.
func ReadinessOf(c *apiextensionsv1.CustomResourceDefinition) Readiness {
	if crd.IsEstablished(c) {
		return Readiness{Ready: true}
	}
	return Readiness{Unknown: true, Reason: Establishing, Message: crd.NotEstablishedMessage(c)}
}

// Apply applies a CustomResourceDefinition, unless the current one, nil for none, is up to date. An event
// follows when it is established. NameTaken says that another one has the name, which the cache does not
// have. An error requests another attempt; if the reason of the readiness is Refused, the status should
// report it.
func (p Publisher) Apply(ctx context.Context, wanted, current *apiextensionsv1.CustomResourceDefinition) (readiness Readiness, nameTaken bool, err error) {
	u, err := install.Configuration(wanted)
	if err != nil {
		return Readiness{}, false, err
	}
	if current != nil && install.IsUpToDate(current, u) {
		return ReadinessOf(current), false, nil
	}
	var answer *unstructured.Unstructured
	if current == nil {
		answer, err = p.Cluster.Create(ctx, u, v1alpha1.InstanceManager)
	} else {
		answer, err = p.Cluster.Update(ctx, u, current.UID, v1alpha1.InstanceManager)
	}
	readiness = Readiness{Unknown: true, Reason: Establishing, Message: "waiting for the API server to serve the kind"}
	switch {
	case err == nil:
		written, err := crd.Decode(answer)
		if err != nil {
			return readiness, false, err
		}
		p.Published(written)
		if current != nil {
			readiness = ReadinessOf(written) // otherwise its event says when it is established
		}
		return readiness, false, nil
	case errors.Is(err, kube.ErrReadOnly):
		return readiness, false, err // another installation is applying it
	case current == nil && kube.IsNameTaken(err):
		return readiness, true, nil
	case kube.IsStale(err):
		return readiness, false, nil // its event brings the next reconcile
	case !kube.IsTransient(err):
		return Readiness{Reason: Refused, Message: err.Error()}, false, nil
	case kube.IsWebhookConflict(err):
		readiness = Readiness{Reason: Refused, Message: err.Error()}
	}
	return readiness, false, fmt.Errorf("apply %s: %w", object.KeyOf(u), err)
}

// Find reads the CustomResourceDefinition that has a name from the API server.
func (p Publisher) Find(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	o, err := p.Cluster.Get(ctx, crd.Kind, "", name)
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	found, err := crd.Decode(o)
	if err == nil {
		p.Published(found)
	}
	return found, err
}

// Delete deletes a CustomResourceDefinition, unless it is being deleted already.
func (p Publisher) Delete(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition) error {
	if c.DeletionTimestamp != nil {
		return nil
	}
	if err := p.Cluster.Delete(ctx, reference(c)); err != nil {
		return fmt.Errorf("delete CustomResourceDefinition %s: %w", c.Name, err)
	}
	return nil
}

// DeleteUnchanged deletes a CustomResourceDefinition unless it has changed after it was read: then kube.IsStale is true
// for the error.
func (p Publisher) DeleteUnchanged(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition) error {
	if err := p.Cluster.DeleteIfUnchanged(ctx, reference(c)); err != nil {
		return fmt.Errorf("delete CustomResourceDefinition %s: %w", c.Name, err)
	}
	return nil
}

func reference(c *apiextensionsv1.CustomResourceDefinition) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(crd.Kind)
	o.SetName(c.Name)
	o.SetUID(c.UID)
	o.SetResourceVersion(c.ResourceVersion)
	return o
}
