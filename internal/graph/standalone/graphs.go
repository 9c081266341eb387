// Package standalone reconciles Graphs: each is a graph and its only instance. It compiles the nodes of a Graph, and has
// the instance engine reconcile it as the account that the Graph names.
package standalone

import (
	"context"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Config is what the controller of Graphs needs.
type Config struct {
	// Cluster and Hub have the controllers' own permissions: they read Graphs, and write their statuses.
	Cluster *kube.Client
	Hub     *watch.Hub
	Kinds   *kube.Kinds
	// As returns the account that impersonates a service account.
	As      func(v1alpha1.ServiceAccount) (definition.Account, error)
	Enqueue func(object.Key)
	Events  telemetry.Recorder
	Version string
	// Keys prove which objects are children of Graphs.
	Keys          inventory.Keys
	Usages        instance.Usages
	Limits        instance.Limits
	Decided       instance.Decided
	SecretOutputs graph.SecretOutputs
	Now           func() time.Time
}

// Graphs reconciles Graphs. It is safe for concurrent use. Keys are set before it starts.
type Graphs struct {
	Config

	mu       sync.Mutex
	programs map[object.Key]*program
	accounts map[string]*account
}

// New returns the controller of Graphs.
func New(c Config) *Graphs {
	return &Graphs{Config: c, programs: map[object.Key]*program{}, accounts: map[string]*account{}}
}

// account reconciles the Graphs of one service account.
type account struct {
	*instance.Reconciler
	definition.Account
	// graphs counts the Graphs that use it.
	graphs int
}

// Reconcile reconciles one Graph.
func (g *Graphs) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, exists := g.Hub.GetCached(graph.GraphKind, key.Namespace, key.Name)
	if !exists {
		o = g.Hub.DeletedDespiteFinalizers(graph.GraphKind, key.Namespace, key.Name)
	}
	if o == nil {
		return g.forget(ctx, key)
	}
	as, err := g.As(accountOf(o))
	if err != nil {
		return reconcile.Fail(err)
	}
	p := g.programOf(key)
	used := g.use(key, p, as)
	if o.GetDeletionTimestamp() != nil {
		return used.Reconcile(ctx, key)
	}
	if err := g.compile(ctx, key, p, o, as.User); err != nil {
		return reconcile.Fail(err)
	}
	notKept := g.recordSpec(ctx, p, o)
	out := used.Reconcile(ctx, key)
	if notKept != nil && out.Err == nil {
		return reconcile.Fail(notKept)
	}
	return out
}

// accountOf is the account that reads and writes the objects of a Graph. One that is deleted has the account that wrote
// them: its authors could choose another one at the end.
func accountOf(o *unstructured.Unstructured) v1alpha1.ServiceAccount {
	named := v1alpha1.ServiceAccount{Namespace: o.GetNamespace(), Name: defaultAccount}
	if name, _, _ := unstructured.NestedString(o.Object, "spec", "serviceAccountName"); name != "" {
		named.Name = name
	}
	applied, _, _ := unstructured.NestedString(o.Object, "status", appliedField)
	if namespace, name, err := serviceaccount.SplitUsername(applied); err == nil && namespace == named.Namespace && o.GetDeletionTimestamp() != nil {
		named.Name = name
	}
	return named
}

const defaultAccount = "default"

func (g *Graphs) programOf(key object.Key) *program {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.programs[key]
	if p == nil {
		p = &program{}
		g.programs[key] = p
	}
	return p
}

// use returns the reconciler of an account, and releases the one that the Graph had before.
func (g *Graphs) use(key object.Key, p *program, as definition.Account) *account {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.account != nil && p.account.User == as.User {
		return p.account
	}
	former := p.account
	next := g.accounts[as.User]
	if next == nil {
		next = &account{Reconciler: g.reconciler(key.Namespace, as), Account: as}
		next.SetComposer(chooser{composer{Composer: noNodes}, g})
		g.accounts[as.User] = next
		if as.Lifetime != nil {
			as.Lifetime.Retain()
		}
	}
	next.graphs++
	p.account = next
	g.leave(key, former)
	return next
}

// leave ends the use of an account by a Graph. The caller holds the lock.
func (g *Graphs) leave(key object.Key, former *account) {
	if former == nil {
		return
	}
	former.Release(key)
	if former.graphs--; former.graphs > 0 {
		return
	}
	delete(g.accounts, former.User)
	if former.Lifetime != nil {
		former.Lifetime.Release()
	}
}

// forget is called for a Graph that is gone.
func (g *Graphs) forget(ctx context.Context, key object.Key) reconcile.Result {
	g.mu.Lock()
	p := g.programs[key]
	delete(g.programs, key)
	g.mu.Unlock()
	if p == nil || p.account == nil {
		return reconcile.Done()
	}
	out := p.account.Reconcile(ctx, key)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(key, p.account)
	return out
}

// Disown forgets a Graph that another installation reconciles.
func (g *Graphs) Disown(key object.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.programs[key]; p != nil {
		delete(g.programs, key)
		g.leave(key, p.account)
	}
}

func (g *Graphs) reconciler(namespace string, as definition.Account) *instance.Reconciler {
	return &instance.Reconciler{
		Kind: graph.GraphKind, Definition: object.Definition{Namespace: namespace}, Dialect: Dialect{},
		Cluster: as.Cluster, Self: g.Cluster, Children: as.Hub, Lease: instance.Leases(as.Hub), Controllers: g.Cluster, Instances: g.Hub, Kinds: g.Kinds,
		Contributes: true,
		Events:      g.Events, Version: g.Version, Keys: g.Keys, Now: g.Now, Usages: g.Usages, Limits: g.Limits, Decided: g.Decided,
		EnqueueDefinition: func() {}, // a change of a kind enqueues the Graph
	}
}

// Concerned lists the Graphs that a change of a kind concerns.
func (g *Graphs) Concerned(c *apiextensionsv1.CustomResourceDefinition) []object.Key {
	kind := crd.GroupKind(c)
	return g.where(func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == kind })
}

// InGroup lists the Graphs that use kinds of an API group.
func (g *Graphs) InGroup(group string) []object.Key {
	return g.where(func(gvk schema.GroupVersionKind) bool { return gvk.Group == group })
}

func (g *Graphs) where(matches func(schema.GroupVersionKind) bool) (out []object.Key) {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, p := range g.programs {
		if slices.ContainsFunc(p.kinds, matches) {
			out = append(out, key)
		}
	}
	return out
}
