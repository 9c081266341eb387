package definition

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// reconcilers reconcile the instances of a kind, each as the account of the revision that composes it: a rollout, or
// an instance that requests a revision, can need two accounts at a time. It is safe for concurrent use, except for
// set.
type reconcilers struct {
	kind      schema.GroupVersionKind
	instances interface {
		GetCached(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
		DeletedDespiteFinalizers(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured
	}
	create func(Account) *instance.Reconciler
	// ended is called with an account that no reconcile uses any more.
	ended func(Account)

	mu        sync.Mutex
	byUser    map[string]*accountReconciler
	composers *composers // nil while there is no good graph
	fallback  string     // the user for instances that no composer composes
}

type accountReconciler struct {
	*instance.Reconciler
	account  Account
	inFlight sync.WaitGroup
}

// Reconcile reconciles an instance as the account of its revision.
func (a *reconcilers) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	chosen, others := a.choose(key)
	if chosen == nil {
		return reconcile.Done() // the definition says why; all instances are enqueued once there is an account
	}
	defer chosen.inFlight.Done()
	for _, other := range others {
		other.Release(key)
	}
	return chosen.Reconcile(ctx, key)
}

// Disown forgets an instance that another installation reconciles.
func (a *reconcilers) Disown(key object.Key) {
	a.mu.Lock()
	all := slices.Collect(maps.Values(a.byUser))
	a.mu.Unlock()
	for _, one := range all {
		one.Disown(key)
	}
}

// choose returns the reconciler of an instance, and the other ones. The chosen one is in flight.
func (a *reconcilers) choose(key object.Key) (chosen *accountReconciler, others []*accountReconciler) {
	o, exists := a.instances.GetCached(a.kind, key.Namespace, key.Name)
	if !exists {
		o = a.instances.DeletedDespiteFinalizers(a.kind, key.Namespace, key.Name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	user := a.fallback
	if o != nil && a.composers != nil {
		user = a.composers.accountOf(o).User
	}
	for other, reconciler := range a.byUser {
		if other == user {
			chosen = reconciler
		} else {
			others = append(others, reconciler)
		}
	}
	if chosen == nil && o == nil && len(others) > 0 {
		chosen, others = others[0], others[1:] // any of them forgets an instance that is gone
	}
	if chosen != nil {
		chosen.inFlight.Add(1)
	}
	return chosen, others
}

// set replaces the composers, which are nil while there is no good graph, and the account for
// instances that they do not compose, whose Cluster is nil if there is none. It waits for the
// reconciles of accounts that are not used any more, and reports whether anything has changed.
func (a *reconcilers) set(next *composers, fallback Account) (changed bool) {
	accounts := map[string]Account{}
	if fallback.Cluster != nil {
		accounts[fallback.User] = fallback
	}
	if next != nil {
		maps.Copy(accounts, distinctAccounts(next.accounts))
	}
	changed, unused := a.replace(next, fallback.User, accounts)
	for _, one := range unused {
		one.inFlight.Wait()
		a.ended(one.account)
	}
	return changed
}

// replace replaces the composers and the accounts, and returns the reconcilers that are not used
// any more.
func (a *reconcilers) replace(next *composers, fallback string, accounts map[string]Account) (changed bool, unused []*accountReconciler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.composers == next && a.fallback == fallback && len(a.byUser) == len(accounts) {
		return false, nil // the composers and the fallback name the users
	}
	for user, account := range accounts {
		if a.byUser[user] == nil {
			a.byUser[user] = &accountReconciler{Reconciler: a.create(account), account: account}
		}
	}
	a.composers, a.fallback = next, fallback
	for user, reconciler := range a.byUser {
		if _, used := accounts[user]; used {
			if next != nil {
				reconciler.SetComposer(composersOf{next, user})
			}
			continue
		}
		delete(a.byUser, user)
		unused = append(unused, reconciler)
	}
	return true, unused
}

// stop ends all accounts. No reconcile is in flight.
func (a *reconcilers) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, reconciler := range a.byUser {
		a.ended(reconciler.account)
	}
	clear(a.byUser)
}

func (v *session) newReconcilers(kind schema.GroupVersionKind) *reconcilers {
	m, key, owner := v.memory, v.Key, v.owner
	return &reconcilers{
		kind: kind, instances: v.Hub, byUser: map[string]*accountReconciler{},
		create: func(account Account) *instance.Reconciler {
			if account.Lifetime != nil {
				account.Lifetime.Retain()
			}
			var controllers instance.Controllers
			if key.Namespace != "" {
				controllers = v.Cluster
			}
			return &instance.Reconciler{
				Controllers: controllers,
				Kind:        kind, Definition: owner, Dialect: instance.Graphs{},
				Cluster: account.Cluster, Children: account.Hub, Lease: instance.Leases(account.Hub), Instances: v.Hub, Kinds: v.Kinds, Events: v.Events,
				Version: v.Version, Keys: v.Keys, Now: v.Now, Usages: v.Usages, Layers: v.Layers, Limits: v.Limits, Decided: v.Decided,
				EnqueueDefinition: func() { v.EnqueueDefinition(key) },
				Readiness:         m.readiness,
			}
		},
		ended: func(account Account) {
			account.Hub.ForgetKind(kind.GroupKind())
			if account.Hub != v.Hub {
				account.Hub.Forget(watch.Subscriber{Key: key})
			}
			if account.Lifetime != nil {
				account.Lifetime.Release()
			}
		},
	}
}

func distinctAccounts(byRevision map[int64]*Account) map[string]Account {
	out := map[string]Account{}
	for account := range maps.Values(byRevision) {
		out[account.User] = *account
	}
	return out
}
