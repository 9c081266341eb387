package aws

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/account"
	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/metrics"
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

// Provider returns the provider. Its metrics are counted, and not served: Flags.Provider does that.
func Provider(o Options) managed.Provider {
	p, _ := newProvider(o)
	return p
}

func newProvider(o Options) (managed.Provider, *metrics.Metrics) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Account.Now == nil {
		o.Account.Now = o.Now
	}
	shared := &accounts{options: o}
	shared.metrics = metrics.New(shared.limits)
	o.Account.Metrics = shared.metrics
	shared.connector = account.New(o.Account)
	p := v1alpha1.Provider()
	p.Catalog = &types{options: o, accounts: shared}
	return p, shared.metrics
}

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
	limiter, reads := a.state(connection{account: accountKey{at.Untrusted(), at.ID, at.Region}, role: at.RoleARN, session: at.Connection()})
	return &cloudcontrol.Account{
		API: sdk.NewFromConfig(at.Config), Tagging: resourcegroupstaggingapi.NewFromConfig(at.Config), ID: at.ID, Region: at.Region, Scope: at.Scope(),
		Config: at.Config, RoleARN: at.RoleARN,
		AdoptionDenied: at.AdoptionDenied(typeName), Limiter: limiter.For(m.GetNamespace(), at.IsNamespaced()), Reads: reads,
		Metrics: a.metrics,
	}, nil
}

// It must not set tags of ours: they would say that a resource belongs to another managed resource.
func checkTags(m *unstructured.Unstructured) error {
	for _, field := range []string{"forProvider", "initProvider"} {
		properties, _, _ := unstructured.NestedMap(m.Object, "spec", field)
		if path := model.ReservedTag(properties); path != "" {
			return fmt.Errorf("spec.%s.%s: tags whose keys begin with espalier.dev/ show which managed resource a resource belongs to, and only the provider sets them. Remove the tag", field, path)
		}
	}
	return nil
}
