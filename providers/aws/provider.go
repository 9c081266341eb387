package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/account"
	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// Options configure the provider.
type Options struct {
	// Account says which identities and addresses the configurations may use.
	Account account.Options
	// IgnoresTokens is for test clouds that take a repeated request for a new one.
	IgnoresTokens bool
	// Settle is how long reads may return the former state; by default longer than AWS is known to take. Test
	// clouds need less.
	Settle time.Duration
	// Now is the clock; the wall clock by default.
	Now func() time.Time
}

// Provider returns the provider.
func Provider(o Options) managed.Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Account.Now == nil {
		o.Account.Now = o.Now
	}
	return managed.Provider{
		Name: "aws",
		CRDs: v1alpha1.CRDs,
		Configs: []schema.GroupVersionKind{
			v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterProviderConfigKind), v1alpha1.GroupVersion.WithKind(v1alpha1.ProviderConfigKind),
		},
		Catalog:     &types{options: o, accounts: &accounts{options: o, connector: account.New(o.Account)}},
		Activations: v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceTypeActivationKind),
	}
}

// accounts has what the clients of an account and region share.
type accounts struct {
	options   Options
	connector *account.Connector

	mu       sync.Mutex
	limiters kept[string, *cloudcontrol.Limiter]
	reads    kept[readsKey, *cloudcontrol.Reads]
}

// readsKey is who reads: with other credentials, another client does.
type readsKey struct {
	scope, role string
	connection  any
}

// maxShared bounds the accounts and regions whose limiters are kept, and the connections whose reads are.
const maxShared = 1000

// connect returns the account of a managed resource.
func (a *accounts) connect(ctx context.Context, objects managed.Objects, m *unstructured.Unstructured, typeName string) (*cloudcontrol.Account, error) {
	at, err := a.connector.Connect(ctx, objects, m)
	if err != nil {
		return nil, err
	}
	if m.GetDeletionTimestamp() == nil {
		if err := at.CheckType(typeName); err != nil {
			return nil, err
		}
		if err := checkTags(m); err != nil {
			return nil, err
		}
	}
	limiter, reads := a.shared(at)
	return &cloudcontrol.Account{
		API: sdk.NewFromConfig(at.Config), ID: at.ID, Region: at.Region, Scope: at.Scope(), Config: at.Config, RoleARN: at.RoleARN,
		AdoptionDenied: at.AdoptionDenied(typeName), Limiter: limiter, Reads: reads,
	}, nil
}

// checkTags returns an error if a managed resource sets tags of ours: they would say that a resource belongs
// to another managed resource.
func checkTags(m *unstructured.Unstructured) error {
	for _, field := range []string{"forProvider", "initProvider"} {
		properties, _, _ := unstructured.NestedMap(m.Object, "spec", field)
		if path := model.ReservedTag(properties); path != "" {
			return fmt.Errorf("spec.%s.%s: tags whose keys begin with espalier.dev/ show which managed resource a resource belongs to, and only the provider sets them. Remove the tag", field, path)
		}
	}
	return nil
}

// shared returns what all clients of the account and region share.
func (a *accounts) shared(at *account.Account) (*cloudcontrol.Limiter, *cloudcontrol.Reads) {
	limiter, reads := a.state(at.Scope(), readsKey{at.Scope(), at.RoleARN, at.Connection()})
	if at.IsNamespaced() {
		limiter = limiter.ForNamespace()
	}
	return limiter, reads
}

func (a *accounts) state(scope string, key readsKey) (*cloudcontrol.Limiter, *cloudcontrol.Reads) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.options.Now()
	return a.limiters.get(scope, now, cloudcontrol.NewLimiter),
		a.reads.get(key, now, func() *cloudcontrol.Reads { return cloudcontrol.NewReads(a.options.Now) })
}

// kept has what is shared by key. When there is too much, what was not used for longest is removed. The zero
// value is empty.
type kept[K comparable, V any] struct{ all map[K]*used[V] }

type used[V any] struct {
	value V
	at    time.Time
}

func (k *kept[K, V]) get(key K, now time.Time, create func() V) V {
	if found := k.all[key]; found != nil {
		found.at = now
		return found.value
	}
	if k.all == nil {
		k.all = map[K]*used[V]{}
	}
	if len(k.all) >= maxShared {
		var oldest K
		var at *used[V]
		for key, each := range k.all {
			if at == nil || each.at.Before(at.at) {
				oldest, at = key, each
			}
		}
		delete(k.all, oldest)
	}
	created := &used[V]{create(), now}
	k.all[key] = created
	return created.value
}
