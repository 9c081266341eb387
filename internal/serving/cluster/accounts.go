package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/wire"
)

// Account is a user whose permissions apply to reads and writes. Its fields are safe for
// concurrent use.
type Account struct {
	// User is the name of the user; empty for this program itself.
	User   string
	Client *kube.Client
	Hub    *watch.Hub

	cluster *Cluster // nil for this program itself
}

// Retain keeps the account until Release, although nothing watches as it. An account that nobody
// retains may be used for as long as one reconcile takes.
func (a *Account) Retain() { a.count(1) }

// Release ends one Retain.
func (a *Account) Release() { a.count(-1) }

func (a *Account) count(by int) {
	if a.cluster == nil {
		return
	}
	all := &a.cluster.accounts
	all.mu.Lock()
	defer all.mu.Unlock()
	if active := all.byUser[a.User]; active != nil && active.Account == a {
		active.retained += by
		active.used = time.Now()
	}
}

// accounts are the impersonated users. Each has watches of its own, so that no other account
// gets what it has read. An account that is not in use any more watches nothing, and is dropped
// after a while, with what it has cached.
type accounts struct {
	mu      sync.Mutex
	byUser  map[string]*activeAccount
	running sync.WaitGroup
}

// activeAccount is an account whose hub runs until stop.
type activeAccount struct {
	*Account
	stop context.CancelFunc
	// retained counts who retains the account, and used is when it was last known to be in use.
	retained int
	used     time.Time
}

// How often accounts are checked, and how long one is kept that is not in use: longer than any
// reconcile that has got it may take.
const (
	accountCheckInterval = time.Minute
	accountIdleTime      = 10 * time.Minute
)

// AccountFor returns the account of a service account, which requests impersonate. An empty
// name is this program's own account. It may be called only while the cluster runs.
func (k *Cluster) AccountFor(namespace, name string) (*Account, error) {
	if name == "" {
		return &Account{Client: k.Client, Hub: k.Hub}, nil
	}
	user := serviceaccount.MakeUsername(namespace, name)
	k.accounts.mu.Lock()
	defer k.accounts.mu.Unlock()
	if a, ok := k.accounts.byUser[user]; ok {
		a.used = time.Now()
		return a.Account, nil
	}
	a, err := k.impersonate(user)
	if err != nil {
		return nil, fmt.Errorf("impersonate %s: %w", user, err)
	}
	if k.accounts.byUser == nil {
		k.accounts.byUser = map[string]*activeAccount{}
	}
	ctx, stop := context.WithCancel(k.runContext)
	k.accounts.byUser[user] = &activeAccount{Account: a, stop: stop, used: time.Now()}
	k.accounts.running.Go(func() { _ = a.Hub.Run(ctx) }) // it returns no error
	return a, nil
}

// dropAccounts drops accounts that are not in use, until the context ends.
func (k *Cluster) dropAccounts(ctx context.Context) {
	due := time.NewTicker(accountCheckInterval)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-due.C:
			k.dropIdleAccounts(now)
		}
	}
}

// dropIdleAccounts drops the accounts that nobody retains, that watch nothing, and that were not
// asked for since accountIdleTime.
func (k *Cluster) dropIdleAccounts(now time.Time) {
	k.accounts.mu.Lock()
	defer k.accounts.mu.Unlock()
	for user, a := range k.accounts.byUser {
		switch {
		case a.retained > 0 || !a.Hub.IsIdle():
			a.used = now
		case now.Sub(a.used) >= accountIdleTime:
			a.stop()
			delete(k.accounts.byUser, user)
		}
	}
}

func (k *Cluster) impersonate(user string) (*Account, error) {
	config := k.permissions.watchForbidden(k.options.Config, user)
	config.Impersonate = rest.ImpersonationConfig{UserName: user} // the API server adds the groups of a service account
	dyn, err := wire.NewClient(config, nil)
	if err != nil {
		return nil, err
	}
	watches := k.watchConfig(dyn)
	watches.ImpersonatedUser, watches.PermissionsHub = user, k.Hub
	watches.KeepIfDeletedWith = nil // the program's own hub caches the instances
	client := kube.NewClient(dyn, k.Kinds)
	client.OnPermissionsChange(func() { k.permissionsChanged(user) })
	return &Account{User: user, Client: client, Hub: watch.New(watches), cluster: k}, nil
}

// hubs returns all hubs: this program's own first, then those of the accounts.
func (k *Cluster) hubs() []*watch.Hub {
	k.accounts.mu.Lock()
	defer k.accounts.mu.Unlock()
	out := []*watch.Hub{k.Hub}
	for _, user := range slices.Sorted(maps.Keys(k.accounts.byUser)) {
		out = append(out, k.accounts.byUser[user].Hub)
	}
	return out
}

// Watches lists all watches: this program's own first, then those of the accounts.
func (k *Cluster) Watches() []watch.KindStats {
	var out []watch.KindStats
	for _, hub := range k.hubs() {
		out = append(out, hub.Stats()...)
	}
	return out
}

// WatchCollector returns the metrics of all watches.
func (k *Cluster) WatchCollector() prometheus.Collector { return watch.NewCollector(k.hubs) }
