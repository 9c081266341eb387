package managed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// bindingStore is the execute.Store on an API server.
type bindingStore struct {
	*Reconciler
	*reconcileState
}

// SetFinalizer adds our finalizer to the managed resource, or removes it.
func (s bindingStore) SetFinalizer(ctx context.Context, present bool) error {
	if present {
		return s.writeResource(s.reconcileState, func() (*unstructured.Unstructured, error) {
			return s.Resources.SetFinalizers(ctx, s.object, append(slices.Clone(s.object.GetFinalizers()), resource.Finalizer), FieldManager)
		})
	}
	o := &writer.Object{Unstructured: s.object}
	_, err := s.writer().Release(ctx, o, resource.Finalizer)
	s.object = o.Unstructured
	return err
}

// CreateBinding creates the binding.
func (s bindingStore) CreateBinding(ctx context.Context, spec *binding.BindingSpec) (reservedBy *binding.BindingSpec, err error) {
	s.binding, reservedBy, err = s.createBinding(ctx, s.reconcileState, execute.BindingName(spec), spec, nil)
	return reservedBy, err
}

// UpdateBinding replaces the binding.
func (s bindingStore) UpdateBinding(ctx context.Context, spec *binding.BindingSpec) error {
	return s.updateBinding(ctx, s.reconcileState, spec)
}

// DeleteBinding deletes the binding.
func (s bindingStore) DeleteBinding(ctx context.Context) error {
	return s.deleteBindings(ctx, s.reconcileState)
}

// ReserveIdentity reserves an assigned identity for this managed resource.
func (s bindingStore) ReserveIdentity(ctx context.Context, of *binding.BindingSpec, ref external.Ref) (reservedBy *binding.BindingSpec, err error) {
	name, spec := execute.Reservation(of, ref)
	_, reservedBy, err = s.createBinding(ctx, s.reconcileState, name, spec, map[string]string{reservationLabel: "true"})
	return reservedBy, err
}

// SetExternalName writes the identity into the external-name annotation.
func (s bindingStore) SetExternalName(ctx context.Context, ref external.Ref) error {
	return s.annotate(ctx, s.reconcileState, resource.ExternalNameAnnotation, string(ref))
}

// LateInitialize sets fields of spec.forProvider that are not set yet. Values that the schema of the kind refuses stay
// unset: external APIs choose some that they do not accept.
func (s bindingStore) LateInitialize(ctx context.Context, chosen map[string]any) error {
	missing := execute.UnsetFields(s.object, chosen)
	for len(missing) > 0 {
		err := s.patch(ctx, s.reconcileState, map[string]any{"spec": map[string]any{"forProvider": missing}})
		if !apierrors.IsInvalid(err) {
			return err
		}
		accepted := withoutRefused(missing, err)
		if len(accepted) == len(missing) {
			return nil
		}
		missing = accepted
	}
	return nil
}

// withoutRefused returns the fields of spec.forProvider that the API server does not name when it refuses
// a change.
func withoutRefused(fields map[string]any, err error) map[string]any {
	out := maps.Clone(fields)
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) || refused.Status().Details == nil {
		return out
	}
	for _, cause := range refused.Status().Details.Causes {
		path, _ := strings.CutPrefix(cause.Field, "spec.forProvider.")
		name := path
		if end := strings.IndexAny(path, ".["); end >= 0 {
			name = path[:end]
		}
		delete(out, name)
	}
	return out
}

// PublishConnection writes the connection secret.
func (s bindingStore) PublishConnection(ctx context.Context, connection map[string][]byte) error {
	return s.publish(ctx, s.reconcileState, connection)
}

func (r *Reconciler) annotate(ctx context.Context, s *reconcileState, key, value string) error {
	return r.patch(ctx, s, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// It fails if the managed resource was changed after it was read.
func (r *Reconciler) patch(ctx context.Context, s *reconcileState, change map[string]any) error {
	return r.writeResource(s, func() (*unstructured.Unstructured, error) {
		return r.Resources.Patch(ctx, s.object, change, FieldManager)
	})
}

func (r *Reconciler) writeResource(s *reconcileState, do func() (*unstructured.Unstructured, error)) error {
	o := &writer.Object{Unstructured: s.object}
	err := r.writer().Write(o, do)
	s.object = o.Unstructured
	return err
}

func (r *Reconciler) writer() writer.Writer {
	return writer.Writer{Cluster: r.Resources, Caches: r.Cache, Events: r.Events, Manager: FieldManager, StatusManager: FieldManager}
}
