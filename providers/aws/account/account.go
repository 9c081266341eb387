// Package account connects to the AWS accounts that ProviderConfigs and ClusterProviderConfigs describe. A
// managed resource, its configuration and the Secrets of that come in; an Account with an aws.Config for the
// SDK's service clients goes out. It decides which configurations a namespace may use, and which identities
// and addresses a configuration of a namespace may: begin with Connector.Connect and settings.go.
package account

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/metrics"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// Account is an account and a region, with credentials and what they may be used for.
type Account struct {
	// ID is the account's number, as AWS's Security Token Service returns it for the credentials.
	ID     string
	Region string
	// Partition is the part of AWS that the account is in: aws, aws-cn, aws-us-gov.
	Partition string
	// RoleARN is the role that the Cloud Control API assumes for its handlers; empty for none.
	RoleARN string
	// Config is for the service clients of the SDK. It carries the credentials and the endpoints of the configuration,
	// makes each request once, and removes credentials from all errors.
	Config aws.Config

	untrusted string
	// namespaced reports whether the configuration belongs to a namespace.
	namespaced bool
	sharing    sharing
	session    *session
}

// Connection identifies the connection and its credentials: it is comparable, and the same for all managed
// resources that share them. Another configuration, and another access key, is another connection.
func (a *Account) Connection() any { return a.session }

// Scope is the scope of the names of resources: account and region. The answers of an endpoint that a namespace has
// chosen prove no account: they have a scope of their own, so a namespace cannot reserve names in another's account.
func (a *Account) Scope() string {
	scope := a.ID + "/" + a.Region
	if a.untrusted != "" {
		return a.untrusted + "/" + scope
	}
	return scope
}

// Untrusted is the namespace whose endpoint has named the account; empty if AWS or an administrator's endpoint has.
func (a *Account) Untrusted() string { return a.untrusted }

// IsNamespaced reports whether the configuration belongs to a namespace.
func (a *Account) IsNamespaced() bool { return a.namespaced }

// CheckType returns an error unless managed resources of the namespace may have a resource type.
func (a *Account) CheckType(typeName string) error { return a.sharing.checkType(typeName) }

// AdoptionDenied returns why a resource that no managed resource of the namespace has created may be neither
// adopted nor observed; empty if it may. It is the AdoptionDenied of an observation. Of a type that is not
// allowed, nothing may be adopted.
func (a *Account) AdoptionDenied(typeName string) string {
	if err := a.CheckType(typeName); err != nil {
		return err.Error()
	}
	return a.sharing.adoptionDenied()
}

// Format writes account and region, whatever the verb: the fields lead to credentials.
func (a Account) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "AWS account %s in %s", a.ID, a.Region)
}

// Options configure a Connector.
type Options struct {
	// LocalEndpoints allows endpoints with http on loopback, and endpoints of ProviderConfigs on the machine
	// on which this program runs: --aws-local-endpoints.
	LocalEndpoints bool
	// NamespacedIdentity allows ProviderConfigs, which belong to a namespace, to use the identity of this
	// process: --aws-namespaced-identity.
	NamespacedIdentity bool
	// Metrics count the calls of all connections; nil counts nothing.
	Metrics *metrics.Metrics
	// Now is the clock for the end of unused connections. The default is the wall clock.
	Now func() time.Time
}

// Connector connects to accounts, and shares connections between managed resources.
type Connector struct {
	options  Options
	sessions sessions
}

// New returns a Connector.
func New(o Options) *Connector {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Connector{options: o}
}

// Connect returns the account that the provider configuration of a managed resource describes. The managed
// resource reconciles again when the configuration or its Secrets change. The account is determined by a
// call of the Security Token Service, once for each credentials.
func (c *Connector) Connect(ctx context.Context, objects managed.Objects, o *unstructured.Unstructured) (*Account, error) {
	s, shared, err := c.options.read(objects, o)
	if err != nil {
		return nil, err
	}
	session, err := c.sessions.get(ctx, c.options, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Config, err)
	}
	id, err := session.identify(ctx, c.options.Now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Config, err)
	}
	return &Account{
		ID: id.account, Region: s.Spec.Region, Partition: id.partition, RoleARN: string(s.Spec.RoleARN), Config: session.config.Copy(),
		untrusted: s.untrusted(), namespaced: s.Namespace != "", sharing: shared, session: session,
	}, nil
}
