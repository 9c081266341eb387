package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// account is whom the controllers act as; *kube.Client knows.
type account interface {
	User(ctx context.Context) string
	Lacks(ctx context.Context, needs []rbac.Need, since time.Time) ([]rbac.Need, error)
}

// watches are opened anew where they may be forbidden; *watch.Hub has them.
type watches interface {
	Recheck(resource schema.GroupResource)
}

// registry knows what definitions lack, and which act as a user; *definition.Registry does.
type registry interface {
	Missing() []definition.Missing
	ActingAs(user string) []object.Key
}

// permissions knows which rights the controllers lack: of those that they need in every
// cluster, which it asks for itself, and of those that definitions need.
type permissions struct {
	account  account
	watches  watches
	registry registry
	// wake asks for a reconcile of a definition.
	wake  func(object.Key)
	needs []rbac.Need
	log   logr.Logger

	begun   atomic.Bool
	changed chan struct{} // has room for one signal: something else is allowed

	mu    sync.Mutex
	user  string
	known bool
	lacks []rbac.Need
	err   error
}

func newPermissions(needs []rbac.Need, log logr.Logger) *permissions {
	return &permissions{needs: needs, log: log, changed: make(chan struct{}, 1)}
}

// How soon it is asked again what the controllers may do while something is missing, or the
// API server doesn't say. Roles are watched, but only once the controllers run, and not every
// authorizer goes by them.
const (
	soonAsked   = time.Second
	seldomAsked = time.Minute
)

// run asks when it begins, when something else is allowed, and as long as something is
// missing. Of several calls one does so, and the others return at once: their contexts may
// end before that one's.
func (p *permissions) run(ctx context.Context) {
	if p.begun.CompareAndSwap(false, true) {
		p.follow(ctx)
	}
}

func (p *permissions) follow(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	wait := soonAsked
	for {
		var since time.Time
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
			wait, since = soonAsked, time.Now().Add(-soonAsked) // what was listed a moment ago is the news
		case <-again.C:
			since = time.Now()
		}
		again.Stop()
		if complete := p.ask(ctx, since); complete {
			wait = soonAsked
			continue
		}
		again.Reset(wait)
		wait = min(2*wait, seldomAsked)
	}
}

// ask finds out what is missing, and logs changes.
func (p *permissions) ask(ctx context.Context, since time.Time) (complete bool) {
	user := p.account.User(ctx)
	lacks, err := p.account.Lacks(ctx, p.needs, since)
	if ctx.Err() != nil {
		return false
	}
	p.mu.Lock()
	before, known, failed := p.lacks, p.known, p.err
	p.user, p.err = user, err
	if err == nil {
		p.lacks, p.known = lacks, true
	}
	p.mu.Unlock()
	switch {
	case err != nil:
		if failed == nil {
			p.log.Error(err, "cannot determine what the controllers may do; it is tried again")
		}
		return false
	case len(lacks) > 0 && (!known || !slices.Equal(before, lacks)):
		p.log.Info("warning: the controllers lack rights; what needs them doesn't work until they are granted",
			"user", user, "missing", strings.Join(rbac.Texts(lacks), "; "), "remedy", remedy(user))
	case len(lacks) == 0 && len(before) > 0:
		p.log.Info("the controllers have been granted the rights that they lacked", "user", user)
	case len(lacks) == 0 && !known:
		p.log.Info("the controllers have all rights that they need in every cluster", "user", user)
	}
	for _, n := range lacks {
		if (n.Verb == "list" || n.Verb == "watch") && !slices.Contains(before, n) {
			p.watches.Recheck(schema.GroupResource{Group: n.Group, Resource: n.Resource})
		}
	}
	return len(lacks) == 0
}

// remedy is the command that prints the roles of the controllers.
func remedy(user string) string {
	command := "espalier rbac --controllers"
	if user != "" {
		command += " " + rbac.Argument(rbac.User(user))
	}
	return command + " | kubectl apply -f -"
}

// permitted is told that something else is allowed than before, to the controllers or to
// another user.
func (p *permissions) permitted(user string) {
	for _, key := range p.registry.ActingAs(user) {
		p.wake(key)
	}
	if user != "" {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// missing lists what is missing: of the controllers' own rights first, then by definition.
func (p *permissions) missing() []telemetry.Missing {
	p.mu.Lock()
	user, lacks := p.user, p.lacks
	p.mu.Unlock()
	user = cmp.Or(user, "the controllers")
	var out []telemetry.Missing
	if len(lacks) > 0 {
		out = append(out, telemetry.Missing{User: user, Needs: lacks})
	}
	for _, m := range p.registry.Missing() {
		out = append(out, telemetry.Missing{User: cmp.Or(m.User, user), Namespace: m.Definition.Namespace, Definition: m.Definition.Name, Needs: m.Needs})
	}
	return out
}

// notes are what is missing, for people, each in one line.
func (p *permissions) notes() []string {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	var out []string
	if err != nil {
		out = append(out, "cannot determine what the controllers may do: "+err.Error())
	}
	for _, m := range p.missing() {
		whatFor := ""
		if m.Definition != "" {
			whatFor = ", for definition " + strings.TrimPrefix(m.Namespace+"/"+m.Definition, "/")
		}
		out = append(out, m.User+" lacks"+whatFor+": "+strings.Join(rbac.Texts(m.Needs), "; "))
	}
	return out
}
