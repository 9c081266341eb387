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

// publish writes what is needed to connect into the secret that the managed
// resource names. Keys that it doesn't know stay.
func (r *Reconciler) publish(ctx context.Context, s *reconcileState, connection map[string][]byte) error {
	at, ok := secretOf(s.object)
	if !ok {
		return nil
	}
	p := publication{object: s.object, at: at, connection: connection}
	p.live, p.known = s.secret(at)
	due, err := p.due(r.Now())
	if due == notDue || err != nil {
		return err
	}
	secret := p.secret()
	answer, err := r.apply(ctx, s, secret)
	if err != nil {
		return fmt.Errorf("write the connection secret %s: %w", at, err)
	}
	r.Cache.Record(answer, watch.Subscriber{}) // whoever has read it is to read it again, this one too
	if !p.isIn(answer) {
		return fmt.Errorf("the connection secret %s isn't stored as it is written: something changes it on its way", at)
	}
	return r.patch(ctx, s, map[string]any{"metadata": map[string]any{"annotations": p.noted(due, r.Now())}})
}

// secret is a connection secret as the watch has it, and whether that is known. Only
// those of our label are watched, all of them at once.
func (s *reconcileState) secret(at secretName) (live *unstructured.Unstructured, known bool) {
	all, state := s.lease.Children(secretKind, ownerID(s.object))
	for _, o := range all {
		if o.GetNamespace() == at.namespace && o.GetName() == at.name {
			live = o
		}
	}
	return live, state.Phase == watch.Synced
}

// watchesSecret wants the connection secret, and says whether it is known what is there
// of it, or that this can't be known: who may not watch secrets goes by what was noted
// of them.
func (s *reconcileState) watchesSecret() bool {
	if _, ok := secretOf(s.object); !ok || s.object.GetDeletionTimestamp() != nil {
		return true
	}
	_, state := s.lease.Children(secretKind, ownerID(s.object))
	return state.Phase == watch.Synced || state.Phase == watch.Unavailable
}

// apply writes an object of the managed resource's, unless one of the name is
// somebody else's.
func (r *Reconciler) apply(ctx context.Context, s *reconcileState, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	made, err := r.Secrets.Create(ctx, o, Manager)
	live := kube.Holder(err)
	if live == nil {
		return made, discreet(err)
	}
	if !metav1.IsControlledBy(live, s.object) {
		return nil, errors.New("it exists already and isn't this object's")
	}
	made, err = r.Secrets.Update(ctx, o, live.GetUID(), Manager)
	return made, discreet(err)
}

// discreet is an error that can't quote what was written, and that isn't taken for one
// about the managed resource.
func discreet(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(kube.RedactedMessage(err))
}
