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

	"github.com/espalier-dev/espalier/internal/controller/definition"
	"github.com/espalier-dev/espalier/internal/kernel"
	"github.com/espalier-dev/espalier/internal/rights"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// permissions knows which rights the controllers lack: of those that they need in every
// cluster, which it asks for itself, and of those that definitions need.
type permissions struct {
	kernel   *kernel.Kernel
	registry *definition.Registry
	needs    []rights.Need
	log      logr.Logger

	begun atomic.Bool
	poke  chan struct{} // holds one: something else is allowed

	mu    sync.Mutex
	user  string
	known bool
	lacks []rights.Need
	err   error
}

func newPermissions(needs []rights.Need, log logr.Logger) *permissions {
	return &permissions{needs: needs, log: log, poke: make(chan struct{}, 1)}
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
		case <-p.poke:
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

// ask finds out what is missing, and tells of it if that is news.
func (p *permissions) ask(ctx context.Context, since time.Time) (complete bool) {
	client := p.kernel.Client
	user := client.User(ctx)
	lacks, err := client.Lacks(ctx, p.needs, since)
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
			"user", user, "missing", strings.Join(rights.Texts(lacks), "; "), "remedy", remedy(user))
	case len(lacks) == 0 && len(before) > 0:
		p.log.Info("the controllers have been granted the rights that they lacked", "user", user)
	case len(lacks) == 0 && !known:
		p.log.Info("the controllers have all rights that they need in every cluster", "user", user)
	}
	for _, n := range lacks {
		if (n.Verb == "list" || n.Verb == "watch") && !slices.Contains(before, n) {
			p.kernel.Hub.Recheck(schema.GroupResource{Group: n.Group, Resource: n.Resource})
		}
	}
	return len(lacks) == 0
}

// remedy is the command that prints the roles of the controllers.
func remedy(user string) string {
	command := "espalier rbac --controllers"
	if user != "" {
		command += " " + rights.Argument(rights.User(user))
	}
	return command + " | kubectl apply -f -"
}

// permitted is told that something else is allowed than before, to the controllers or to
// another user.
func (p *permissions) permitted(user string) {
	for _, key := range p.registry.ActingAs(user) {
		p.kernel.Wake(key)
	}
	if user != "" {
		return
	}
	select {
	case p.poke <- struct{}{}:
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
		out = append(out, m.User+" lacks"+whatFor+": "+strings.Join(rights.Texts(m.Needs), "; "))
	}
	return out
}
