package cloudcontrol

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"

	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/metrics"
	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// API is the part of the Cloud Control API that the client calls. *cloudcontrol.Client implements it.
type API interface {
	CreateResource(context.Context, *cloudcontrol.CreateResourceInput, ...func(*cloudcontrol.Options)) (*cloudcontrol.CreateResourceOutput, error)
	UpdateResource(context.Context, *cloudcontrol.UpdateResourceInput, ...func(*cloudcontrol.Options)) (*cloudcontrol.UpdateResourceOutput, error)
	DeleteResource(context.Context, *cloudcontrol.DeleteResourceInput, ...func(*cloudcontrol.Options)) (*cloudcontrol.DeleteResourceOutput, error)
	GetResource(context.Context, *cloudcontrol.GetResourceInput, ...func(*cloudcontrol.Options)) (*cloudcontrol.GetResourceOutput, error)
	ListResources(context.Context, *cloudcontrol.ListResourcesInput, ...func(*cloudcontrol.Options)) (*cloudcontrol.ListResourcesOutput, error)
	GetResourceRequestStatus(context.Context, *cloudcontrol.GetResourceRequestStatusInput,
		...func(*cloudcontrol.Options)) (*cloudcontrol.GetResourceRequestStatusOutput, error)
	ListResourceRequests(context.Context, *cloudcontrol.ListResourceRequestsInput,
		...func(*cloudcontrol.Options)) (*cloudcontrol.ListResourceRequestsOutput, error)
}

// Account is an AWS account and region with what all its clients share.
type Account struct {
	API API
	// Tagging is optional: with it, a long search asks it first.
	Tagging Tagging
	// ID is the account's number.
	ID, Region string
	// Scope is the scope of external.Key.
	Scope string
	// Config is for hooks. RoleARN is the role that Cloud Control assumes; empty for none.
	Config  aws.Config
	RoleARN string
	// AdoptionDenied is why foreign resources must not be adopted; empty if they may.
	AdoptionDenied string
	// Limiter and Reads are optional.
	Limiter *Limiter
	Reads   *Reads
	// Metrics count what is read; nil counts nothing.
	Metrics *metrics.Metrics
}

// Options say how the Cloud Control API behaves.
type Options struct {
	// IgnoresTokens: a repeated request is a new one, as with some test clouds. Then a creation that lost its answer is
	// resolved by its tags, or by a user.
	IgnoresTokens bool
	// Settle is how long reads may return the former state; the default is defaultSettle.
	Settle time.Duration
	// Now is the clock; the wall clock by default.
	Now func() time.Time
}

const (
	// tokenTTL is how long a repeated request is recognized by its token. AWS promises 36 hours.
	tokenTTL = 24 * time.Hour
	// defaultSettle covers the delays of AWS's services after Cloud Control reports an operation's success.
	defaultSettle = 10 * time.Second
)

// Kind is a resource type with all that its clients need. It is made once, and is safe for concurrent use.
type Kind struct {
	Type    *resourcetype.Type
	hooks   hook.Hooks
	options Options
	tags    model.Tags
	caps    external.Caps
}

// NewKind returns the kind of a resource type.
func NewKind(t *resourcetype.Type, hooks hook.Hooks, o Options) *Kind {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	k := &Kind{Type: t, hooks: hooks, options: o, tags: model.TagsOf(t)}
	k.caps = external.Caps{Settle: o.Settle, TokenTTL: tokenTTL, Marked: k.tags.Property != "" && k.tags.AtCreation}
	if o.IgnoresTokens {
		k.caps.TokenTTL = 0
	}
	k.caps.Findable = k.caps.Marked && model.IsListable(t)
	if model.IsServerAssigned(t) {
		k.caps.Naming = external.ProviderAssigned
	}
	if hooks.Handler != nil {
		k.caps = handlerCaps(t, hooks.Handler, o)
		k.caps.Marked = k.tags.Property != "" && k.tags.AtCreation
	}
	return k
}

// Caps returns what Cloud Control can do for the type.
func (k *Kind) Caps() external.Caps { return k.caps }
