package managed

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// Other keys of the secret stay.
func (r *Reconciler) publish(ctx context.Context, s *reconcileState, connection map[string][]byte) error {
	at, ok := secretRef(s.object)
	if !ok {
		return nil
	}
	p := publication{object: s.object, name: at, connection: connection, read: s.secret}
	p.live, p.known = s.findSecret(at)
	due, err := p.writeReason(r.Now())
	if due == noWrite || err != nil {
		return err
	}
	answer, err := r.applySecret(ctx, p)
	if kube.IsNameTaken(err) {
		return err // the reconcile is repeated
	}
	if err != nil {
		return fmt.Errorf("write the connection secret %s: %w", at, err)
	}
	r.Cache.Record(answer, watch.Subscriber{}) // enqueue all who have read it, this object included
	s.secret = answer
	if !p.isStored(answer) {
		return fmt.Errorf("the connection secret %s is not stored as written: an admission webhook or another client changes it", at)
	}
	return r.patch(ctx, s, map[string]any{"metadata": map[string]any{"annotations": p.annotations(due, r.Now())}})
}

// known reports whether the cache is synced. Only secrets with our label are in it.
func (s *reconcileState) findSecret(at secretName) (live *unstructured.Unstructured, known bool) {
	all, state := s.lease.Children(secretKind, ownerID(s.object))
	for _, o := range all {
		if o.GetNamespace() == at.namespace && o.GetName() == at.name {
			live = o
		}
	}
	return live, state.Phase == watch.Synced
}

// readSecret watches the connection secret and reads it. It reports whether its cache is synced or unavailable. A
// program that is not allowed to watch secrets relies on the annotations instead.
func (s *reconcileState) readSecret() (ready bool) {
	at, ok := secretRef(s.object)
	if !ok || s.object.GetDeletionTimestamp() != nil {
		return true
	}
	_, state := s.lease.Children(secretKind, ownerID(s.object))
	s.secret, _ = s.findSecret(at)
	return state.Phase == watch.Synced || state.Phase == watch.Unavailable
}

// It fails if a secret of the name exists that the managed resource does not control. If that secret is not the one
// that the client could read, it records it, and the error satisfies kube.IsNameTaken: the content may follow from what
// is stored, and a password that a former leader has generated, or a user has restored, would be replaced.
func (r *Reconciler) applySecret(ctx context.Context, p publication) (*unstructured.Unstructured, error) {
	o := p.secret()
	made, err := r.Secrets.Create(ctx, o, FieldManager)
	live := kube.ExistingObject(err)
	if live == nil {
		return made, redacted(err)
	}
	if !metav1.IsControlledBy(live, p.object) {
		return nil, errors.New("it exists already, and this object does not control it. Delete it, or set another name in spec.writeConnectionSecretToRef")
	}
	if p.isUnread(live) {
		r.Cache.Record(live, watch.Subscriber{})
		return nil, err
	}
	made, err = r.Secrets.Update(ctx, o, live.GetUID(), FieldManager)
	return made, redacted(err)
}

// redacted returns an error that does not quote the secret's content, and that no caller can
// mistake for an API error about the managed resource.
func redacted(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(kube.RedactedMessage(err))
}
