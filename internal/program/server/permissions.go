package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
)

// account is the user that the controllers act as; *kube.Client implements it.
type account interface {
	Username(ctx context.Context) string
	MissingPermissions(ctx context.Context, needs []rbac.Permission, since time.Time) ([]rbac.Permission, error)
}

// watches are opened again if they may be forbidden; *watch.Hub implements it.
type watches interface {
	RecheckAccess(resource schema.GroupResource)
}

// registry knows which permissions definitions lack, and which definitions act as a user;
// *definition.Registry implements it.
type registry interface {
	Missing() []definition.Missing
	ActingAs(user string) []object.Key
}

// permissions knows which permissions are missing: those that the controllers need in every
// cluster, which it checks itself, and those that definitions need.
type permissions struct {
	account  account
	watches  watches
	registry registry
	// enqueue requests a reconcile of a definition.
	enqueue func(object.Key)
	needs   []rbac.Permission
	log     logr.Logger

	started atomic.Bool
	changed chan struct{} // has room for one signal that permissions have changed

	mu    sync.Mutex
	user  string
	known bool
	lacks []rbac.Permission
	err   error
}

func newPermissions(needs []rbac.Permission, log logr.Logger) *permissions {
	return &permissions{needs: needs, log: log, changed: make(chan struct{}, 1)}
}

// minCheckInterval and maxCheckInterval are the first and the longest interval of checks while permissions
// are missing, or the check fails. Roles are watched as well, but only once the controllers
// run, and not every authorizer uses them.
const (
	minCheckInterval = time.Second
	maxCheckInterval = time.Minute
)

// run checks the permissions once, each time they change, and repeatedly as long as some are
// missing, until the context ends. Only the first call does so; others return at once.
func (p *permissions) run(ctx context.Context) {
	if p.started.CompareAndSwap(false, true) {
		p.checkRepeatedly(ctx)
	}
}

func (p *permissions) checkRepeatedly(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	wait := minCheckInterval
	for {
		var since time.Time
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
			wait, since = minCheckInterval, time.Now().Add(-minCheckInterval) // the roles were listed a moment ago
		case <-next.C:
			since = time.Now()
		}
		next.Stop()
		if complete := p.check(ctx, since); complete {
			wait = minCheckInterval
			continue
		}
		next.Reset(wait)
		wait = min(2*wait, maxCheckInterval)
	}
}

// check determines which permissions are missing, and logs changes.
func (p *permissions) check(ctx context.Context, since time.Time) (complete bool) {
	user := p.account.Username(ctx)
	lacks, err := p.account.MissingPermissions(ctx, p.needs, since)
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
			p.log.Error(err, "cannot determine the permissions of the controllers; retrying")
		}
		return false
	case len(lacks) > 0 && (!known || !slices.Equal(before, lacks)):
		p.log.Info("warning: the controllers lack permissions; what needs them fails until they are granted",
			"user", user, "missing", strings.Join(rbac.Describe(lacks), "; "), "remedy", remedy(user))
	case len(lacks) == 0 && len(before) > 0:
		p.log.Info("the controllers have been granted the permissions that they lacked", "user", user)
	case len(lacks) == 0 && !known:
		p.log.Info("the controllers have all permissions that they need in every cluster", "user", user)
	}
	for _, n := range lacks {
		if (n.Verb == "list" || n.Verb == "watch") && !slices.Contains(before, n) {
			p.watches.RecheckAccess(schema.GroupResource{Group: n.Group, Resource: n.Resource})
		}
	}
	return len(lacks) == 0
}

// explain adds how to grant the missing permissions to an error that ends the program because a request was
// forbidden. The program may end before the log says that.
func (p *permissions) explain(ctx context.Context, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	lacks, reviewErr := p.account.MissingPermissions(ctx, p.needs, time.Now())
	if reviewErr != nil || len(lacks) == 0 {
		return err // an admission webhook or policy answers in the same way
	}
	return fmt.Errorf("%w; grant the controllers what they lack: %s", err, remedy(p.account.Username(ctx)))
}

// remedy is the command that prints the roles of the controllers.
func remedy(user string) string {
	command := "espalier rbac --controllers"
	if user != "" {
		command += " " + rbac.SubjectFlag(rbac.UserSubject(user))
	}
	return command + " | kubectl apply -f -"
}

// permissionsChanged is called when the permissions of a user have changed; "" stands for the
// controllers' own.
func (p *permissions) permissionsChanged(user string) {
	for _, key := range p.registry.ActingAs(user) {
		p.enqueue(key)
	}
	if user != "" {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// missing returns the missing permissions: the controllers' own first, then those of
// definitions.
func (p *permissions) missing() []missingPermissions {
	p.mu.Lock()
	user, lacks := p.user, p.lacks
	p.mu.Unlock()
	user = cmp.Or(user, "the controllers")
	var out []missingPermissions
	if len(lacks) > 0 {
		out = append(out, missingPermissions{User: user, Needs: lacks})
	}
	for _, m := range p.registry.Missing() {
		out = append(out, missingPermissions{User: cmp.Or(m.User, user), Namespace: m.Definition.Namespace, Definition: m.Definition.Name,
			Needs: m.Permissions})
	}
	return out
}

// notes describe the missing permissions, each in one line.
func (p *permissions) notes() []string {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	var out []string
	if err != nil {
		out = append(out, "cannot determine the permissions of the controllers: "+err.Error())
	}
	for _, m := range p.missing() {
		whatFor := ""
		if m.Definition != "" {
			whatFor = ", for definition " + strings.TrimPrefix(m.Namespace+"/"+m.Definition, "/")
		}
		out = append(out, m.User+" lacks"+whatFor+": "+strings.Join(rbac.Describe(m.Needs), "; "))
	}
	return out
}
