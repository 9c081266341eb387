package instance

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// Where the children of an instance are looked for is decided here alone. The account of a definition in a namespace
// may have permissions in single namespaces only: kinds are watched in the namespaces where the instance has children
// or is going to have them. For other definitions one watch of a kind, in all namespaces, serves all instances.

// childNamespaces is what one reconcile knows of namespaces.
type childNamespaces struct {
	// desired are the namespaces of desired objects, as far as the inventory had not recorded them when they were first
	// desired.
	desired map[string]struct{}
	// recordedBy is the revision of the instance that the recorded namespaces were last read from.
	recordedBy *unstructured.Unstructured
	// states are the namespaces that were read.
	states map[string]namespaceState
}

// The namespaces are sorted; there are none if the children are looked for in all, or if the kind has none. A kind that
// is not served counts as namespaced: its watch waits for it.
func (r *Reconciler) childNamespaces(ctx context.Context, s *subject, gvk schema.GroupVersionKind) []string {
	if r.Definition.Namespace == "" {
		return nil
	}
	if resource, err := r.Kinds.Resolve(ctx, gvk); err == nil && !resource.Namespaced {
		return nil
	}
	recorded, known := r.recordedNamespaces(s)
	if !known {
		return nil
	}
	all := map[string]struct{}{}
	maps.Copy(all, recorded)
	maps.Copy(all, s.namespaces.desired)
	own := s.key.Namespace
	if own == "" {
		own = r.Definition.Namespace // a cluster-scoped instance has children where they say
	}
	all[own] = struct{}{}
	return slices.Sorted(maps.Keys(all))
}

// They do not include the instance's own. They are unknown if another writer has changed the inventory, and this
// process has not read it before.
func (r *Reconciler) recordedNamespaces(s *subject) (namespaces map[string]struct{}, known bool) {
	if s.namespaces.recordedBy != s.instance && s.owner.IsIntact(s.instance) {
		s.memory.rememberNamespaces(s.owner.Recorded(s.instance).Namespaces)
	}
	s.namespaces.recordedBy = s.instance
	return s.memory.namespaces, s.memory.namespaces != nil
}

// Only the next inventory of our own removes some: another writer can restore an older one with its signature.
func (m *memory) rememberNamespaces(recorded map[string]struct{}) {
	all := map[string]struct{}{}
	maps.Copy(all, m.namespaces)
	maps.Copy(all, recorded)
	m.namespaces = all
}

func (r *Reconciler) readLabelled(ctx context.Context, s *subject, lease Lease, gvk schema.GroupVersionKind) ([]*unstructured.Unstructured,
	watch.State) {
	namespaces := r.childNamespaces(ctx, s, gvk)
	if namespaces == nil {
		found, state := lease.Children(gvk, s.owner.ID())
		return found, r.withHint(s, state)
	}
	found, state := lease.ChildrenIn(gvk, namespaces, s.owner.ID())
	if state.Reason == watch.Forbidden {
		gone := func(namespace string) bool { return r.isGoneWithNamespace(ctx, s, namespace) }
		if left := slices.DeleteFunc(slices.Clone(namespaces), gone); len(left) < len(namespaces) {
			found, state = lease.ChildrenIn(gvk, left, s.owner.ID())
		}
	}
	return found, r.withHint(s, state)
}

func (r *Reconciler) watchLabelled(ctx context.Context, s *subject, lease Lease, gvk schema.GroupVersionKind) {
	if namespaces := r.childNamespaces(ctx, s, gvk); namespaces != nil {
		lease.ChildrenIn(gvk, namespaces, s.owner.ID())
		return
	}
	lease.Watch(watch.ChildrenOf(gvk, s.owner.ID()))
}

// observeFurtherNamespaces reads the children again if the composer has named objects in
// namespaces that were not looked at, and reports whether it has: an object there may be the
// instance's already.
func (r *Reconciler) observeFurtherNamespaces(ctx context.Context, s *subject, o *observation) (found bool) {
	if r.Definition.Namespace == "" {
		return false
	}
	recorded, _ := r.recordedNamespaces(s)
	for _, node := range o.desired.Nodes {
		if node.External || node.Object == nil || node.Object.GetNamespace() == "" || node.Object.GetNamespace() == s.key.Namespace {
			continue
		}
		namespace := node.Object.GetNamespace()
		_, isRecorded := recorded[namespace]
		if _, isDesired := s.namespaces.desired[namespace]; isRecorded || isDesired {
			continue
		}
		if s.namespaces.desired == nil {
			s.namespaces.desired = map[string]struct{}{}
		}
		s.namespaces.desired[namespace] = struct{}{}
		found = true
	}
	if found {
		r.observeChildren(ctx, s, o)
	}
	return found
}

// The inventory must not be written: the namespaces of children are unknown, and not all children can be read.
func (r *Reconciler) lostNamespaces(s *subject, unread []schema.GroupKind) plan.Problem {
	if r.Definition.Namespace == "" || len(unread) == 0 {
		return plan.Problem{}
	}
	if _, known := r.recordedNamespaces(s); known {
		return plan.Problem{}
	}
	return plan.Problem{
		Reason: plan.Unavailable,
		Message: fmt.Sprintf("another writer has modified the inventory (%s, %s): the instance's objects are looked for in all namespaces, and %s cannot be read there; nothing is changed. Restore the annotations, or let the service account list and watch the kinds in all namespaces",
			v1alpha1.ApplySetNamespacesAnnotation, v1alpha1.ApplySetHashAnnotation, unread[0].String()),
	}
}

// withHint adds to a forbidden state how its permissions are granted.
func (r *Reconciler) withHint(s *subject, state watch.State) watch.State {
	if state.Reason == watch.Forbidden {
		state.Message += r.grantHint(s.key.Namespace)
	}
	return state
}

// It says how the account of a definition in a namespace gets permissions for the instances of a namespace; it is empty
// for other definitions, whose condition says so.
func (r *Reconciler) grantHint(namespace string) string {
	d := r.Definition
	if d.Namespace == "" || d.IsGraph() {
		return ""
	}
	command := "espalier rbac " + d.Name + " --namespace " + d.Namespace
	if namespace != "" && namespace != d.Namespace {
		command += " --instance-namespace " + namespace
	}
	return "; '" + command + "' prints the roles and bindings of its service account"
}
