package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// Account is a user whose permissions apply to reads and writes. Its fields are safe for
// concurrent use.
type Account struct {
	// User is the name of the user; empty for this program itself.
	User   string
	Client *kube.Client
	Hub    *watch.Hub
}

// accounts are the impersonated users. Each has watches of its own, so that no other account
// gets what it has read. An account that is not in use any more watches nothing, and is
// kept.
type accounts struct {
	mu      sync.Mutex
	byUser  map[string]*Account
	running sync.WaitGroup
}

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
		return a, nil
	}
	a, err := k.impersonate(user)
	if err != nil {
		return nil, fmt.Errorf("impersonate %s: %w", user, err)
	}
	if k.accounts.byUser == nil {
		k.accounts.byUser = map[string]*Account{}
	}
	k.accounts.byUser[user] = a
	k.accounts.running.Go(func() { _ = a.Hub.Run(k.runContext) }) // it returns no error
	return a, nil
}

func (k *Cluster) impersonate(user string) (*Account, error) {
	config := k.permissions.watchForbidden(k.options.Config, user)
	config.Impersonate = rest.ImpersonationConfig{UserName: user} // the API server adds the groups of a service account
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	watches := k.watchConfig(dyn)
	watches.ImpersonatedUser, watches.PermissionsHub = user, k.Hub
	watches.KeepIfDeletedWith = nil // the program's own hub caches the instances
	client := kube.NewClient(dyn, k.Kinds)
	client.OnPermissionsChange(func() { k.permissionsChanged(user) })
	return &Account{User: user, Client: client, Hub: watch.New(watches)}, nil
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
