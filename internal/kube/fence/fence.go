// Package fence keeps a process from writing for an object that another process reconciles now: a
// reconcile has a Tenure in its context, and a client of a configuration from Wrap refuses writes once that
// has ended. A request that was sent before cannot be recalled; what must not be done twice is guarded by
// the epoch of the tenure in addition.
package fence

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// ErrNotOwner is the error of writes for an object that another process reconciles. That process makes
// them.
var ErrNotOwner = errors.New("another replica of the controllers reconciles this object now")

// Tenure is the right to write for some objects, for a while. It is safe for concurrent use.
type Tenure struct {
	// Holder names this process, and Epoch grows from each tenure of the objects to the next.
	Holder string
	Epoch  int64
	// Taken is when it began: what was read before may be older than the last write of the holder before.
	Taken time.Time
	// Until is the time until which nobody else can have the right; nil or the zero time for no end.
	Until func() time.Time

	ended atomic.Bool
}

// readOnly is the tenure of a process that observes what another one reconciles.
var readOnly = func() *Tenure {
	t := &Tenure{}
	t.End()
	return t
}()

// End ends the tenure.
func (t *Tenure) End() { t.ended.Store(true) }

// Check returns ErrNotOwner once the tenure has ended, by End or by the time of Until.
func (t *Tenure) Check() error {
	if t.ended.Load() {
		return ErrNotOwner
	}
	if t.Until == nil {
		return nil
	}
	if until := t.Until(); !until.IsZero() && !time.Now().Before(until) {
		return ErrNotOwner
	}
	return nil
}

type contextKey struct{}

// With returns a context for requests under a tenure.
func With(ctx context.Context, t *Tenure) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// ReadOnly returns a context whose requests must not write.
func ReadOnly(ctx context.Context) context.Context { return With(ctx, readOnly) }

// Of returns the tenure of a context; nil if it has none, so that nothing is refused.
func Of(ctx context.Context) *Tenure {
	t, _ := ctx.Value(contextKey{}).(*Tenure)
	return t
}

// MayWrite reports whether requests with this context may write.
func MayWrite(ctx context.Context) bool {
	t := Of(ctx)
	return t == nil || t.Check() == nil
}

// Until returns the time until which no other process can have the right to write with this context: the zero time for
// no end, and one in the past if this process has not the right.
func Until(ctx context.Context) time.Time {
	t := Of(ctx)
	switch {
	case t == nil || t.Check() != nil:
		return time.Unix(0, 0)
	case t.Until == nil:
		return time.Time{}
	}
	return t.Until()
}

// Elapsed returns the time between two moments, by which a Lease may have expired: by the monotonic or the wall clock,
// whichever says more. The monotonic clock stops while a machine is suspended, and the wall clock may be set back.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// Holder returns who writes with this context, and the epoch of the tenure.
func Holder(ctx context.Context) (holder string, epoch int64) {
	if t := Of(ctx); t != nil {
		return t.Holder, t.Epoch
	}
	return "", 0
}

// Wrap returns a configuration whose clients refuse writes with ErrNotOwner once the tenure of their context has ended.
// They refuse nothing if the context has no tenure.
func Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	return config
}

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if tenure := Of(r.Context()); tenure != nil && writes(r) {
		if err := tenure.Check(); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(r)
}

// writes reports whether a request changes something. Reviews of permissions and of tokens are posted, and
// change nothing.
func writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodPost:
		return !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/authentication.k8s.io/")
	}
	return true
}
