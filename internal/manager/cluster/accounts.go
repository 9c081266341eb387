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

// Account is by whose rights something is read and written. Its parts are safe for
// concurrent use.
type Account struct {
	// User is who that is, as the API server knows him; empty for this program itself.
	User   string
	Client *kube.Client
	Hub    *watch.Hub
}

// accounts are those whose rights are in use besides this program's own. What one of
// them has read nobody else is shown: each has watches of its own. One that nobody uses
// any more watches nothing, and is kept.
type accounts struct {
	mu    sync.Mutex
	all   map[string]*Account
	lives sync.WaitGroup
}

// As is the account of a service account, by whose rights requests are made from then on:
// the API server is asked to take them for that one's. An empty name is for this
// program's own rights. It is to be called while the cluster runs.
func (k *Cluster) As(namespace, name string) (*Account, error) {
	if name == "" {
		return &Account{Client: k.Client, Hub: k.Hub}, nil
	}
	user := serviceaccount.MakeUsername(namespace, name)
	k.accounts.mu.Lock()
	defer k.accounts.mu.Unlock()
	if a, ok := k.accounts.all[user]; ok {
		return a, nil
	}
	a, err := k.impersonate(user)
	if err != nil {
		return nil, fmt.Errorf("act as %s: %w", user, err)
	}
	if k.accounts.all == nil {
		k.accounts.all = map[string]*Account{}
	}
	k.accounts.all[user] = a
	k.accounts.lives.Go(func() { _ = a.Hub.Run(k.life) }) // it returns no error
	return a, nil
}

func (k *Cluster) impersonate(user string) (*Account, error) {
	config := k.permissions.noticing(k.options.Config, user)
	config.Impersonate = rest.ImpersonationConfig{UserName: user} // the API server knows its groups
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	watching := k.watching(dyn)
	watching.As, watching.Teller = user, k.Hub
	client := kube.NewClient(dyn, k.Kinds)
	client.OnChange(func() { k.permitted(user) })
	return &Account{User: user, Client: client, Hub: watch.New(watching)}, nil
}

// hubs are all that watch: this program's own first, then those of each account.
func (k *Cluster) hubs() []*watch.Hub {
	k.accounts.mu.Lock()
	defer k.accounts.mu.Unlock()
	out := []*watch.Hub{k.Hub}
	for _, user := range slices.Sorted(maps.Keys(k.accounts.all)) {
		out = append(out, k.accounts.all[user].Hub)
	}
	return out
}

// Watches lists all watches: this program's own first, then those of each account.
func (k *Cluster) Watches() []watch.KindStats {
	var out []watch.KindStats
	for _, hub := range k.hubs() {
		out = append(out, hub.Stats()...)
	}
	return out
}

// Watched reports all watches as metrics.
func (k *Cluster) Watched() prometheus.Collector { return watch.NewCollector(k.hubs) }
