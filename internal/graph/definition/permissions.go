package definition

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// permissions lists what reconciling a definition's instances needs: for the impersonated accounts, by user, and for
// the controllers themselves. Without accounts all is the controllers'. No list of an account is empty.
type permissions struct {
	accounts    map[string][]rbac.Permission
	controllers []rbac.Permission
}

func (p permissions) isEmpty() bool { return len(p.accounts)+len(p.controllers) == 0 }

// users lists the users of the accounts, sorted, without the controllers.
func (p permissions) users() []string { return slices.Sorted(maps.Keys(p.accounts)) }

// remembered is how long the result of an access review is reused: definitions that compile
// at the same time, after a start, send the same request once.
const remembered = 10 * time.Second

// reviewPermissions checks whether all permissions that instances need are granted, and
// records changes. A change of roles or bindings triggers it again.
func (v *session) reviewPermissions(ctx context.Context) {
	needs, accounts := v.needs(ctx)
	v.review.users = needs.users()
	if needs.isEmpty() {
		return
	}
	before := v.memory.review.missing
	v.reviewNeeds(ctx, needs, accounts)
	if v.review.err != nil {
		return
	}
	lacks := v.memory.review.missing
	v.Registry.setPermissions(v.memory, v.review.users, lacks)
	v.recordPermissionEvents(ctx)
	for user, account := range accounts {
		v.recheckWatches(account.Hub, lacks.accounts[user], before.accounts[user])
	}
	v.recheckWatches(v.Hub, lacks.controllers, before.controllers)
	regained := before.without(lacks)
	for user := range regained.accounts {
		if account, used := accounts[user]; used {
			account.Hub.RetryForbidden() // roles in a namespace are watched only while a watch is forbidden
		}
	}
	if !regained.isEmpty() && v.memory.running.Controller != nil {
		v.memory.running.EnqueueAll() // they may have failed without these permissions
	}
}

// recheckWatches checks the watches that are no longer allowed: open watches continue for a
// while, and instances must not rely on them.
func (r *Dialect) recheckWatches(hub *watch.Hub, lacks, before []rbac.Permission) {
	for _, n := range without(lacks, before) {
		if n.Verb == "list" || n.Verb == "watch" {
			hub.RecheckAccess(schema.GroupResource{Group: n.Group, Resource: n.Resource})
		}
	}
}

// recordPermissionEvents records one event when permissions are missing, and one when they
// are granted. It works even if the status cannot be written.
func (v *session) recordPermissionEvents(ctx context.Context) {
	e := v.memory
	if e.review.missing.isEmpty() {
		if e.review.message != "" {
			v.Events.Event(v.Unstructured, telemetry.Normal, "PermissionsGranted", "all required permissions are granted")
		}
		e.review.message = ""
		return
	}
	text := e.review.missing.message(v.Cluster.Username(ctx), v.Key)
	was, _ := condition.Read(v.Unstructured).Get(v1alpha1.DefinitionPermissionsGranted)
	if text != e.review.message && (e.review.message != "" || was.Message != text) { // otherwise a former process has recorded it
		v.Events.Event(v.Unstructured, telemetry.Warning, "PermissionsMissing", text)
		logr.FromContextOrDiscard(ctx).Info("warning: permissions are missing", "message", text)
	}
	e.review.message = text
}

func (p permissions) without(o permissions) permissions {
	out := permissions{accounts: map[string][]rbac.Permission{}, controllers: without(p.controllers, o.controllers)}
	for user, all := range p.accounts {
		if rest := without(all, o.accounts[user]); len(rest) > 0 {
			out.accounts[user] = rest
		}
	}
	return out
}

func without(needs, others []rbac.Permission) []rbac.Permission {
	return slices.DeleteFunc(slices.Clone(needs), func(n rbac.Permission) bool { return slices.Contains(others, n) })
}

// needs are the permissions that reconciling instances needs, with the accounts by user: for the definition, for the
// chosen revision and for the serving ones, because the instances of an invalid definition continue.
func (v *session) needs(ctx context.Context) (all permissions, accounts map[string]Account) {
	all, accounts = permissions{accounts: map[string][]rbac.Permission{}}, map[string]Account{}
	add := func(spec *v1alpha1.DefinitionSpec, account Account) {
		if account.Cluster == nil {
			return
		}
		needs := graph.RequiredPermissions(spec, graph.Scope{Namespace: v.Key.Namespace}, func(gvk schema.GroupVersionKind) (graph.Served, bool) {
			served, err := v.Kinds.Resolve(ctx, gvk)
			return graph.Served{Resource: served.GVR.Resource, ClusterScoped: !served.Namespaced}, err == nil
		})
		all.controllers = append(all.controllers, needs.Controllers...)
		if account.User == "" {
			all.controllers = append(all.controllers, needs.Instances...)
			return
		}
		accounts[account.User] = account
		all.accounts[account.User] = append(all.accounts[account.User], needs.Instances...)
		all.controllers = append(all.controllers, rbac.Impersonate(account.Named.Namespace, account.Named.Name)...)
	}
	if v.result.graph != nil {
		add(v.source.spec, v.account)
	}
	if v.choice.candidate.compilation != nil && v.choice.candidate.spec != nil {
		account, _ := v.accountFor(v.choice.candidate.number)
		add(v.choice.candidate.spec, account)
	}
	for _, n := range revision.StateOf(v.status).Revisions() {
		if one := revision.FindNumber(v.history.revisions, n); one != nil {
			account, _ := v.accountFor(n)
			add(&one.Spec.Snapshot.Spec, account)
		}
	}
	for user, needs := range all.accounts {
		all.accounts[user] = rbac.Distinct(needs)
	}
	all.controllers = rbac.Distinct(all.controllers)
	return all, accounts
}

// reviewNeeds sends access reviews: when the needs change, when roles or bindings may have
// changed, and as long as a permission is missing.
func (v *session) reviewNeeds(ctx context.Context, needs permissions, accounts map[string]Account) {
	e, now := v.memory, v.Now()
	grants := v.namespacedRolesState(accounts)
	epochs := []any{v.Cluster.PermissionsEpoch()} // read before the review, so a later change triggers another one
	for _, user := range needs.users() {
		epochs = append(epochs, user, accounts[user].Cluster.PermissionsEpoch())
	}
	asked := object.Digest([]any{needs.accounts, needs.controllers, epochs, grants})
	if e.review.grants != grants {
		e.review.grants, e.review.confirmAt = grants, now.Add(confirmed)
	}
	confirming := !e.review.confirmAt.IsZero() && !now.Before(e.review.confirmAt)
	if confirming {
		e.review.confirmAt = time.Time{}
	}
	defer func() { v.confirmAt(e.review.confirmAt, now) }()
	if e.review.needs == asked && e.review.missing.isEmpty() && !confirming {
		return
	}
	since := now.Add(-remembered)
	if e.review.needs == asked {
		since = now
	}
	lacks, err := v.findMissing(ctx, needs, accounts, since)
	if err != nil {
		v.review.err = err
		e.review.needs = ""
		v.review.requeueAfter = e.review.backoff.next(true, now)
		return
	}
	v.review.requeueAfter = e.review.backoff.next(!lacks.isEmpty(), now)
	e.review.needs, e.review.missing = asked, lacks
}

// confirmed is the delay of another review after a role of a namespace has changed: the API
// server applies the change a moment later, without an event.
const confirmed = 3 * time.Second

// confirmAt does nothing for the zero time.
func (v *session) confirmAt(at, now time.Time) {
	if at.IsZero() {
		return
	}
	if wait := max(at.Sub(now), time.Millisecond); v.review.requeueAfter == 0 || wait < v.review.requeueAfter {
		v.review.requeueAfter = wait
	}
}

// namespacedRolesState identifies the state of the roles and bindings in a namespace that let the
// controllers impersonate the accounts, and that the accounts of a definition in a namespace need,
// if they are those that 'espalier rbac' prints. Reviews of cluster permissions do not cover
// permissions in one namespace.
func (v *session) namespacedRolesState(accounts map[string]Account) string {
	names := []string{rbac.ControllersRoleName(v.Key.Namespace, v.Key.Name)}
	if v.Key.Namespace != "" {
		names = append(names, rbac.RoleName(v.Key.Namespace, v.Key.Name))
	}
	var states []string
	for _, user := range slices.Sorted(maps.Keys(accounts)) {
		for _, gvk := range inNamespaces {
			for _, name := range names {
				o, _ := v.lease.Object(gvk, accounts[user].Named.Namespace, name)
				if o != nil {
					states = append(states, o.GetResourceVersion())
				}
			}
		}
	}
	return strings.Join(states, ",")
}

// findMissing returns the needs that are not granted. If the controllers are not allowed to impersonate an account,
// its permissions are unknown, and impersonation is the missing permission.
func (r *Dialect) findMissing(ctx context.Context, needs permissions, accounts map[string]Account, since time.Time) (lacks permissions, err error) {
	if lacks.controllers, err = r.Cluster.MissingPermissions(ctx, needs.controllers, since); err != nil {
		return permissions{}, err
	}
	lacks.accounts = map[string][]rbac.Permission{}
	for user, account := range accounts {
		if slices.ContainsFunc(lacks.controllers, func(n rbac.Permission) bool { return n.IsImpersonation(account.Named.Namespace, account.Named.Name) }) {
			continue
		}
		missing, err := account.Cluster.MissingPermissions(ctx, needs.accounts[user], since)
		if err != nil {
			return permissions{}, err
		}
		if len(missing) > 0 {
			lacks.accounts[user] = missing
		}
	}
	return lacks, nil
}

// reviewBackoff counts reviews that found permissions missing. The controllers observe that
// roles change, but not when the API server applies the change.
type reviewBackoff struct {
	times int
	due   time.Time
}

const (
	firstAsk   = time.Second
	slowestAsk = 5 * time.Minute
)

// next is the delay before the next review. A reconcile before that has another trigger.
func (l *reviewBackoff) next(still bool, now time.Time) time.Duration {
	if !still || now.Before(l.due) {
		l.times = 0
	}
	if !still {
		l.due = time.Time{}
		return 0
	}
	delay := min(slowestAsk, firstAsk<<min(l.times, 16))
	l.times, l.due = l.times+1, now.Add(delay)
	return delay
}

var inNamespaces = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// permissionsCondition is the condition that lists missing permissions. There is none if the
// definition names no account and the controllers have all permissions.
func (v *session) permissionsCondition(before condition.Set) (v1alpha1.Condition, bool) {
	e := v.memory
	_, hadCondition := before.Get(v1alpha1.DefinitionPermissionsGranted)
	if e.review.needs == "" && v.review.err == nil || v.review.err == nil && len(v.review.users) == 0 && e.review.missing.isEmpty() && !hadCondition {
		return v1alpha1.Condition{}, false
	}
	who := cmp.Or(strings.Join(v.review.users, " and "), "the controllers' account")
	c := v1alpha1.Condition{Type: v1alpha1.DefinitionPermissionsGranted, Status: condition.True, Reason: "Granted", Message: who + " has all required permissions"}
	switch {
	case v.review.err != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, "ReviewFailed"
		c.Message = "cannot determine the permissions of " + who + ": " + kube.RedactedMessage(v.review.err)
	case !e.review.missing.isEmpty():
		c.Status, c.Reason, c.Message = condition.False, "Forbidden", e.review.message
	}
	return c, true
}

// message says which permissions are missing, for which account, and how to grant them. The
// controllers' own name is empty while it is unknown.
func (p permissions) message(controllers string, key object.Key) string {
	command := "espalier rbac " + commandArguments(key)
	if len(p.controllers) > 0 && controllers != "" {
		command += " " + rbac.SubjectFlag(rbac.UserSubject(controllers))
		controllers = "The controllers (" + controllers + ")"
	} else {
		controllers = "The controllers"
	}
	var texts []string
	tell := func(who, verb string, needs []rbac.Permission) {
		if len(needs) > 0 {
			texts = append(texts, who+" "+verb+": "+strings.Join(rbac.Describe(needs), "; "))
		}
	}
	for _, user := range p.users() {
		tell(user, "lacks", p.accounts[user])
	}
	tell(controllers, "lack", p.controllers)
	return "missing permissions; grant them with the roles and bindings that '" + command + "' prints. " + strings.Join(texts, ". ")
}

func commandArguments(key object.Key) string {
	if key.Namespace != "" {
		return key.Name + " --namespace " + key.Namespace
	}
	return key.Name
}

func (v *session) requeue(out reconcile.Result) reconcile.Result {
	patience := v.review.requeueAfter
	if v.kindAbsent && (patience == 0 || patience > kube.BuiltInCacheTTL) {
		patience = kube.BuiltInCacheTTL
	}
	if patience > 0 && out.Err == nil && (out.RequeueAfter == 0 || patience < out.RequeueAfter) {
		return reconcile.RequeueAfter(patience)
	}
	return out
}
