package serving

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// InitialMetadata binds v1alpha1.InitialMetadataPolicy to the served kinds, so that the API server
// gives instances their finalizer when they are created. Where the API server has no such policies, or
// the controllers may not bind them, it does nothing, and the reconcilers of instances write the
// finalizer. It is safe for concurrent use; nil does nothing.
type InitialMetadata struct {
	Cluster *kube.Client
	Hub     *watch.Hub
	Kinds   *kube.Kinds
	Log     logr.Logger
	// Enqueue enqueues the definitions of a CustomResourceDefinition.
	Enqueue func(*apiextensionsv1.CustomResourceDefinition)
	// BindAfter is for how long a kind must be served before it is bound; see BindAfter.
	BindAfter time.Duration

	controller atomic.Pointer[queue.Controller]

	mu sync.Mutex
	// refused has the digests of bindings that the API server has refused, by their names: none is
	// sent twice.
	refused map[string]string
}

// BindAfter is the time for InitialMetadata.BindAfter. For these policies the API server reads every
// five seconds of which kinds it has schemas, and refuses all writes to a bound kind that it does not
// know yet, whatever the policy says about failures.
const BindAfter = 20 * time.Second

// Start watches the bindings. A definition is enqueued when the binding of its kind changes.
func (m *InitialMetadata) Start(e *queue.Engine) {
	m.controller.Store(e.Start(install.BindingKind, m, func() { m.enqueueAll("") }))
}

// known says whether the bindings are known.
func (m *InitialMetadata) known() bool {
	c := m.controller.Load()
	return c != nil && c.State().Phase == watch.Synced
}

// Reconcile enqueues the definition of a binding that has changed.
func (m *InitialMetadata) Reconcile(_ context.Context, key object.Key) reconcile.Result {
	if name, ours := strings.CutPrefix(key.Name, install.BindingName("")); ours {
		m.enqueueAll(name)
	}
	return reconcile.Done()
}

// enqueueAll enqueues the definitions of all kinds, or of the CustomResourceDefinition with the name.
func (m *InitialMetadata) enqueueAll(name string) {
	for _, c := range m.Kinds.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool {
		return name == "" || c.Name == name
	}) {
		m.Enqueue(c)
	}
}

// bind creates or updates the binding of a kind that is served, unless it is up to date. A refused binding is no error:
// instances get their finalizer without it. If it is too early, it returns how long to wait.
func (m *InitialMetadata) bind(ctx context.Context, definition object.Key, wanted *unstructured.Unstructured, servedSince, now time.Time) (wait time.Duration, err error) {
	if m == nil || !m.known() {
		return 0, nil
	}
	digest := inventory.AppliedDigest(wanted)
	current, exists := m.Hub.GetCached(install.BindingKind, "", wanted.GetName())
	if exists && inventory.AppliedDigest(current) == digest || m.isRefused(wanted.GetName(), digest) {
		return 0, nil
	}
	if wait := m.BindAfter - now.Sub(servedSince); wait > 0 {
		return wait, nil
	}
	_, err = m.Hub.Write(wanted, watch.Subscriber{Key: definition}, func() (*unstructured.Unstructured, error) {
		if exists {
			return m.Cluster.Update(ctx, wanted, current.GetUID(), v1alpha1.InstanceManager)
		}
		return m.Cluster.Create(ctx, wanted, v1alpha1.InstanceManager)
	})
	switch {
	case err == nil, kube.IsStale(err), kube.IsNameTaken(err): // the event of the other binding follows
		return 0, nil
	case apierrors.IsForbidden(err) || kube.IsPermanent(err):
		m.Log.Info("the API server refuses to bind the policy; the finalizers of new instances are written instead", "binding", wanted.GetName(), "error", err.Error())
		m.refuse(wanted.GetName(), digest)
		return 0, nil
	}
	return 0, fmt.Errorf("bind MutatingAdmissionPolicy %s: %w", v1alpha1.InitialMetadataPolicy, err)
}

func (m *InitialMetadata) isRefused(name, digest string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused[name] == digest
}

func (m *InitialMetadata) refuse(name, digest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = map[string]string{}
	}
	m.refused[name] = digest
}

// PermissionsChanged lets refused bindings be tried again.
func (m *InitialMetadata) PermissionsChanged() {
	m.mu.Lock()
	clear(m.refused)
	m.mu.Unlock()
	m.enqueueAll("")
}

// unbind deletes the binding of a kind before its controller stops. While the API server may still
// use it, the result is final: an instance that got a finalizer must be counted.
func (m *InitialMetadata) unbind(ctx context.Context, definition object.Key, c *apiextensionsv1.CustomResourceDefinition) reconcile.Result {
	if m == nil || c == nil {
		return reconcile.Result{}
	}
	current, exists := m.Hub.GetCached(install.BindingKind, "", install.BindingName(c.Name))
	if !exists {
		return reconcile.Result{}
	}
	if err := m.Cluster.Delete(ctx, current); err != nil {
		return reconcile.Fail(fmt.Errorf("delete the binding of MutatingAdmissionPolicy %s: %w", v1alpha1.InitialMetadataPolicy, err))
	}
	m.Hub.RecordGone(install.BindingKind, "", current.GetName(), string(current.GetUID()), watch.Subscriber{Key: definition})
	return reconcile.RequeueAfter(unbindDelay)
}

// unbindDelay is longer than an API server goes on to use a binding that has been deleted. It learns of
// the deletion by a watch.
const unbindDelay = time.Second
