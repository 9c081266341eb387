package serving

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// migrationDelay is the time from a change of the storage version to the migration: other API servers
// may observe the change later and still store the former version.
const migrationDelay = 5 * time.Second

// migrationBatch limits the instances that one reconcile rewrites, so other definitions do not wait.
const migrationBatch = 200

// Migration rewrites the instances of a kind in the current storage version. It starts over
// after a restart.
type Migration struct {
	crd            types.UID
	storageVersion string
	since          time.Time
	listed         bool
	instances      int
	pending        []*unstructured.Unstructured
	// refused are the pending instances that the API server has refused to write, with the reason. They are tried again
	// after the rest.
	refused []refusedInstance
	// problem names the refused instances of the last attempt; empty if there are none.
	problem string
}

// Problem names the instances that could not be rewritten in the last attempt; empty if there are none.
func (m *Migration) Problem() string {
	if m == nil {
		return ""
	}
	return m.problem
}

type refusedInstance struct {
	*unstructured.Unstructured

	reason string
}

// maxRefusedInstances bounds how many refused instances a message names.
const maxRefusedInstances = 3

func (m *Migration) retryRefused() string {
	var texts []string
	for _, o := range m.refused {
		if m.pending = append(m.pending, o.Unstructured); len(texts) < maxRefusedInstances {
			texts = append(texts, fmt.Sprintf("%s: %s", object.KeyOf(o.Unstructured), o.reason))
		}
	}
	if more := len(m.refused) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	text := fmt.Sprintf("%d of %s cannot be rewritten in version %s: %s", len(m.refused), diag.Counted(m.instances, "instance", "instances"),
		m.storageVersion, strings.Join(texts, "; "))
	m.refused = nil
	return text
}

// NeedsMigration reports whether instances of a kind may be stored in another version than the storage version.
func NeedsMigration(c *apiextensionsv1.CustomResourceDefinition) bool {
	return c.DeletionTimestamp == nil && crd.IsEstablished(c) && len(crd.OutdatedStoredVersions(c)) > 0
}

// Migrate rewrites some of the instances that may be stored in a former version, as an account. When all are rewritten,
// it updates status.storedVersions, so the version can be removed. m is the migration so far, nil for none, and next is
// the migration that remains. A result that is not final asks for nothing.
func (c *Config) Migrate(ctx context.Context, d *Definition, m *Migration, current *apiextensionsv1.CustomResourceDefinition,
	as *kube.Client) (next *Migration, out reconcile.Result) {
	if version := crd.StorageVersion(current); m == nil || m.crd != current.UID || m.storageVersion != version {
		m = &Migration{crd: current.UID, storageVersion: version, since: c.Now()}
	}
	if wait := m.since.Add(migrationDelay).Sub(c.Now()); wait > 0 {
		return m, reconcile.RequeueAfter(wait)
	}
	if err := rewriteBatch(ctx, c.Cluster, as, m, current); err != nil {
		return m, reconcile.Fail(fmt.Errorf("rewrite instances of %s in version %s: %w", current.Spec.Names.Kind, m.storageVersion, kube.Redacted(err)))
	}
	if len(m.pending) > 0 {
		c.EnqueueDefinition(d.Key)
		return m, reconcile.Result{}
	}
	if len(m.refused) > 0 {
		before := m.problem
		if m.problem = m.retryRefused(); m.problem != before {
			c.Events.Event(d.Unstructured, telemetry.Warning, "InstancesNotRewritten", m.problem)
		}
		return m, reconcile.Fail(errors.New(m.problem))
	}
	if err := c.setStoredVersion(ctx, m, current.Name); err != nil {
		return m, reconcile.Fail(fmt.Errorf("set status.storedVersions of %s to %s: %w", current.Spec.Names.Kind, m.storageVersion, err))
	}
	return nil, reconcile.Result{}
}

// An empty change makes the API server store an object again if it is stored in another version. One that it refuses
// does not keep the rest waiting. The controllers list the instances, because they watch them anyway and the account is
// not allowed to in all namespaces.
func rewriteBatch(ctx context.Context, controllers, as *kube.Client, m *Migration, current *apiextensionsv1.CustomResourceDefinition) error {
	if !m.listed {
		kind := crd.GroupKind(current).WithVersion(m.storageVersion)
		instances, err := controllers.List(ctx, kind, "")
		if err != nil {
			return err
		}
		for i := range instances {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(kind)
			o.SetNamespace(instances[i].GetNamespace())
			o.SetName(instances[i].GetName())
			o.SetUID(instances[i].GetUID())
			m.pending = append(m.pending, o)
		}
		m.listed, m.instances = true, len(m.pending)
	}
	for range min(migrationBatch, len(m.pending)) {
		o := m.pending[0]
		changed, err := rewriteInstance(ctx, as, o)
		switch {
		case err == nil && changed:
			m.pending = append(m.pending, o) // another client was faster
		case err == nil || kube.IsStale(err):
		case kube.IsPermanent(err):
			m.refused = append(m.refused, refusedInstance{o, kube.RedactedMessage(err)})
		default:
			return err
		}
		m.pending = m.pending[1:]
	}
	return nil
}

// The managed fields are in the storage version, too. It returns true if the instance changed meanwhile, so it has to
// be rewritten again.
func rewriteInstance(ctx context.Context, as *kube.Client, o *unstructured.Unstructured) (changed bool, err error) {
	answer, err := as.PatchMetadata(ctx, o, map[string]any{"metadata": map[string]any{}}, v1alpha1.InstanceManager)
	if err != nil {
		return false, err
	}
	fields, outdated := inVersion(answer.GetManagedFields(), o.GetAPIVersion())
	if !outdated {
		return false, nil
	}
	_, err = as.PatchMetadata(ctx, o, map[string]any{"metadata": map[string]any{
		"managedFields": fields, "resourceVersion": answer.GetResourceVersion(),
	}}, v1alpha1.InstanceManager)
	if kube.IsStale(err) {
		return true, nil
	}
	return false, err
}

func (c *Config) setStoredVersion(ctx context.Context, m *Migration, name string) error {
	o, err := c.Cluster.Get(ctx, crd.Kind, "", name)
	if err != nil {
		return err
	}
	current, err := crd.Decode(o)
	if err != nil {
		return err
	}
	if current.UID != m.crd || crd.StorageVersion(current) != m.storageVersion {
		return nil // the next reconcile reads its new state
	}
	status, _ := o.Object["status"].(map[string]any)
	if status == nil {
		return nil
	}
	status["storedVersions"] = []any{m.storageVersion}
	answer, err := c.Cluster.WriteStatus(ctx, o, status, v1alpha1.InstanceManager)
	if kube.IsStale(err) {
		return nil // it has changed: its event triggers the next reconcile
	}
	if err != nil {
		return err
	}
	if current, err = crd.Decode(answer); err == nil {
		c.Published(current)
	}
	return err
}
