package activation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed"
	"github.com/espalier-dev/espalier/internal/managed/activation/plan"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Fields that the API server would not accept count as unset.
func readActivation(o *unstructured.Unstructured) plan.Activation {
	a := plan.Activation{Name: o.GetName(), Deleting: o.GetDeletionTimestamp() != nil}
	raw, _, _ := unstructured.NestedMap(o.Object, "spec")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &a.Spec); err != nil {
		a.Spec = resource.ActivationSpec{}
	}
	return a
}

func (r *Reconciler) installed() []plan.CRD {
	var out []plan.CRD
	for _, c := range r.CRDs.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool { return IsOf(r.Provider, c) }) {
		out = append(out, r.read(c))
	}
	return out
}

func (r *Reconciler) find(name string) (*apiextensionsv1.CustomResourceDefinition, bool) {
	found := r.CRDs.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == name && IsOf(r.Provider, c) })
	if len(found) == 0 {
		return nil, false
	}
	return found[0], true
}

// The CustomResourceDefinition of a type that the catalog has lost is kept apart by the name of its kind.
func (r *Reconciler) read(c *apiextensionsv1.CustomResourceDefinition) plan.CRD {
	kind := crd.GroupKind(c)
	name, clusterScoped, ok := r.Catalog.TypeOf(kind)
	if !ok {
		name = kind.String()
	}
	out := plan.CRD{
		Name: c.Name, Key: plan.Key{Type: name, ClusterScoped: clusterScoped}, Kind: kind.WithVersion(crd.StorageVersion(c)),
		Activation: c.Annotations[resource.ActivationAnnotation], Ours: IsOf(r.Provider, c), Digest: c.Annotations[v1alpha1.AppliedAnnotation],
		Deleting: c.DeletionTimestamp != nil, Established: crd.IsEstablished(c),
	}
	if !out.Established {
		out.Message = crd.NotEstablishedMessage(c)
	}
	return out
}

func (r *Reconciler) facts(s *reconcileState, installed []plan.CRD) plan.Facts {
	f := plan.Facts{
		CRDs: map[string]plan.CRD{}, Users: map[plan.Key]plan.Users{}, Starting: map[plan.Key]bool{}, Forbidden: map[plan.Key]string{},
		Digest: r.Catalog.digest, Failures: r.failures,
	}
	for _, c := range installed {
		f.CRDs[c.Name] = c
	}
	for _, kind := range s.wanted.Kinds() {
		if found, exists := r.CRDs.CRD(kind.GVK.GroupKind()); exists && !IsOf(r.Provider, found) {
			f.CRDs[kind.CRD] = r.read(found)
		}
	}
	for _, c := range installed {
		r.addAccess(&f, s, c)
	}
	for _, c := range s.wanted.Unwanted(installed) {
		f.Users[c.Key] = r.users(s, c)
	}
	return f
}

// noName is the name of no object.
const noName = "*"

// addAccess adds whether the objects of a kind are known, or cannot be read. The lease is on an object that cannot
// exist: it shares the watch of the kind's controller, and only the state of that brings another reconcile.
func (r *Reconciler) addAccess(f *plan.Facts, s *reconcileState, c plan.CRD) {
	if !c.Established || !s.wanted.Has(c.Key) {
		return
	}
	if r.served[c.Key] == nil {
		f.Starting[c.Key] = true
		return
	}
	switch _, state := s.lease.Object(c.Kind, "", noName); {
	case state.Phase == watch.Synced:
	case state.Phase == watch.Unavailable && state.Reason == watch.Forbidden:
		f.Forbidden[c.Key] = fmt.Sprintf("%s; grant that: espalier %s rbac %s | kubectl apply -f -", state.Message, r.Provider, c.Key.Type)
	default:
		f.Starting[c.Key] = true
	}
}

// Its changes bring the next reconcile.
func (r *Reconciler) users(s *reconcileState, c plan.CRD) plan.Users {
	var u plan.Users
	if c.Established {
		objects, state := s.lease.Matching(c.Kind, "", labels.Everything())
		u.Objects = len(objects)
		addState(&u, state)
	}
	bindings, state := s.lease.Matching(managed.BindingKind, "", labels.Everything())
	for _, b := range bindings {
		apiVersion, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "apiVersion")
		kind, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "kind")
		if schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind() == c.Kind.GroupKind() {
			u.Bindings = append(u.Bindings, b.GetName())
		}
	}
	addState(&u, state)
	return u
}

func addState(u *plan.Users, state watch.State) {
	switch state.Phase {
	case watch.Synced:
	case watch.Unavailable:
		u.Unreadable = cmp.Or(u.Unreadable, state.Message)
	default:
		u.Syncing = true
	}
}

// demand reads which kinds definitions name, if definitions may activate kinds.
func (r *Reconciler) demand(s *reconcileState, activations []plan.Activation) plan.Demand {
	if !slices.ContainsFunc(activations, func(a plan.Activation) bool { return len(a.Spec.OnDemand) > 0 }) {
		r.definitions.Forget()
		return plan.Demand{}
	}
	r.definitions.Kinds, r.definitions.Matches = r.Definitions, r.isOfCatalog
	r.definitions.IsDefined = func(kind schema.GroupKind) bool {
		_, defined := r.CRDs.CRD(kind)
		return defined
	}
	return plan.Demand(r.definitions.Read(s.lease))
}

func (r *Reconciler) isOfCatalog(kind schema.GroupKind) bool {
	if strings.Contains(kind.Group, "$") {
		return false // an expression
	}
	_, _, ok := r.Catalog.TypeOf(kind)
	return ok
}
