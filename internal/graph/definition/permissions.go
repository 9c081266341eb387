package definition

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// permissions are rights that a definition's instances are looked after with: those of the
// account that it names, and those of the controllers themselves. Without an account all are
// the controllers'.
type permissions struct{ account, controllers []rbac.Need }

func (p permissions) isEmpty() bool { return len(p.account)+len(p.controllers) == 0 }

// remembered is for how long it is taken for true what is allowed: definitions that are
// compiled at the same time, after a start, ask once.
const remembered = 10 * time.Second

// reviewPermissions asks whether all is allowed that instances are looked after with. It is woken
// when that changes, and tells of it.
func (r *Dialect) reviewPermissions(ctx context.Context, v *session) {
	needs := r.needs(ctx, v)
	if needs.isEmpty() || v.account.Cluster == nil {
		return
	}
	before := v.memory.review.missing
	r.reviewNeeds(ctx, v, needs)
	if v.review.err != nil {
		return
	}
	lacks := v.memory.review.missing
	r.Registry.setPermissions(v.memory, v.account.User, lacks)
	r.recordPermissionEvents(ctx, v)
	r.recheckWatches(v.account.Hub, lacks.account, before.account)
	r.recheckWatches(r.Hub, lacks.controllers, before.controllers)
	if regained := before.without(lacks); !regained.isEmpty() && v.memory.running.Controller != nil {
		for _, o := range r.Hub.Select(v.memory.running.Kind, "", labels.Everything()) {
			v.memory.running.Wake(object.KeyOf(o), watch.Background) // it may have failed for want of these
		}
	}
}

// recheckWatches looks whether what may no longer be watched still is: open watches go on for a
// while, and instances must not count on them.
func (r *Dialect) recheckWatches(hub *watch.Hub, lacks, before []rbac.Need) {
	for _, n := range without(lacks, before) {
		if n.Verb == "list" || n.Verb == "watch" {
			hub.Recheck(schema.GroupResource{Group: n.Group, Resource: n.Resource})
		}
	}
}

// recordPermissionEvents tells, each once, that rights are missing and which, and that none are
// any more. It doesn't take a status that can be written.
func (r *Dialect) recordPermissionEvents(ctx context.Context, v *session) {
	e := v.memory
	if e.review.missing.isEmpty() {
		if e.review.message != "" {
			r.Events.Event(v.Unstructured, telemetry.Normal, "PermissionsGranted", "all rights are granted that instances need")
		}
		e.review.message = ""
		return
	}
	text := e.review.missing.message(v.account.User, r.Cluster.User(ctx), v.Key)
	was, _ := condition.Read(v.Unstructured).Get(v1alpha1.DefinitionPermissionsGranted)
	if text != e.review.message && (e.review.message != "" || was.Message != text) { // else a run before this one has
		r.Events.Event(v.Unstructured, telemetry.Warning, "PermissionsMissing", text)
		logr.FromContextOrDiscard(ctx).Info("warning: rights are missing", "message", text)
	}
	e.review.message = text
}

func (p permissions) without(o permissions) permissions {
	return permissions{without(p.account, o.account), without(p.controllers, o.controllers)}
}

// without are the needs that aren't among others.
func without(needs, others []rbac.Need) []rbac.Need {
	return slices.DeleteFunc(slices.Clone(needs), func(n rbac.Need) bool { return slices.Contains(others, n) })
}

// needs are the rights that instances are looked after with, by what the definition is, by
// what is to serve, and by what serves: an invalid definition's instances go on.
func (r *Dialect) needs(ctx context.Context, v *session) (all permissions) {
	var specs []*v1alpha1.DefinitionSpec
	if v.result.graph != nil {
		specs = append(specs, v.source.spec)
	}
	if v.choice.candidate.compilation != nil && v.choice.candidate.spec != nil {
		specs = append(specs, v.choice.candidate.spec)
	}
	for _, n := range revision.StateOf(v.status).Revisions() {
		if one := revision.Numbered(v.history.revisions, n); one != nil {
			specs = append(specs, &one.Spec.Snapshot.Spec)
		}
	}
	for _, spec := range specs {
		needs := graph.Needs(spec, func(gvk schema.GroupVersionKind) (string, bool) {
			served, err := r.Kinds.Resolve(ctx, gvk)
			return served.GVR.Resource, err == nil
		})
		all.account = append(all.account, needs.Instances...)
		all.controllers = append(all.controllers, needs.Controllers...)
	}
	switch named := v.account.Named; {
	case named.Name == "":
		all = permissions{controllers: append(all.controllers, all.account...)}
	case len(specs) > 0:
		all.controllers = append(all.controllers, rbac.Impersonate(named.Namespace, named.Name))
	}
	return permissions{rbac.Distinct(all.account), rbac.Distinct(all.controllers)}
}

// reviewNeeds asks what is allowed: when something else is needed, when it may have changed, and
// as long as something lacks.
func (r *Dialect) reviewNeeds(ctx context.Context, v *session, needs permissions) {
	e, now := v.memory, r.Now()
	grants := r.impersonationState(v)
	asked := object.Digest([]any{
		v.account.User, needs.account, needs.controllers,
		v.account.Cluster.Epoch(), r.Cluster.Epoch(), grants, // before it is asked: what changes meanwhile is news
	})
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
	lacks, err := r.findMissing(ctx, v, needs, since)
	if err != nil {
		v.review.err = err
		e.review.needs = ""
		v.review.requeueAfter = e.review.backoff.next(true, now)
		return
	}
	v.review.requeueAfter = e.review.backoff.next(!lacks.isEmpty(), now)
	e.review.needs, e.review.missing = asked, lacks
}

// confirmed is when it is asked once more what is allowed after a role of a namespace has
// changed: it takes the API server a moment to go by it, of which it doesn't tell.
const confirmed = 3 * time.Second

// confirmAt asks for a pass at a time; zero for none.
func (v *session) confirmAt(at, now time.Time) {
	if at.IsZero() {
		return
	}
	if wait := max(at.Sub(now), time.Millisecond); v.review.requeueAfter == 0 || wait < v.review.requeueAfter {
		v.review.requeueAfter = wait
	}
}

// impersonationState names the state of what lets the controllers act as the account, as far as
// that is granted by the objects that are printed for it. What is granted in one namespace
// isn't listed with what is granted in all.
func (r *Dialect) impersonationState(v *session) string {
	if v.account.Named.Name == "" {
		return ""
	}
	var states []string
	for _, gvk := range inNamespaces {
		o, _ := v.lease.Object(gvk, v.account.Named.Namespace, rbac.ControllersRoleOf(v.Key.Namespace, v.Key.Name))
		if o != nil {
			states = append(states, o.GetResourceVersion())
		}
	}
	return strings.Join(states, ",")
}

// findMissing is what of the needs is not granted. What the account may do isn't known while the
// controllers may not act as it: then that is what lacks.
func (r *Dialect) findMissing(ctx context.Context, v *session, needs permissions, since time.Time) (lacks permissions, err error) {
	if lacks.controllers, err = r.Cluster.Lacks(ctx, needs.controllers, since); err != nil {
		return permissions{}, err
	}
	if slices.ContainsFunc(lacks.controllers, func(n rbac.Need) bool { return n.Verb == rbac.Impersonation }) {
		return lacks, nil
	}
	lacks.account, err = v.account.Cluster.Lacks(ctx, needs.account, since)
	return lacks, err
}

// reviewBackoff is how often in vain it was asked for rights. That they are granted is seen, but
// not when the API server has heard of it.
type reviewBackoff struct {
	times int
	due   time.Time
}

const (
	firstAsk   = time.Second
	slowestAsk = 5 * time.Minute
)

// next is when to ask again. Whoever comes before that was told of something new.
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

// inNamespaces are the kinds that say who may do what in a namespace.
var inNamespaces = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// permissionsCondition is the condition that tells what is lacking; none where there is nothing to
// say: this program has all rights that it needs, as it is expected to.
func (r *Dialect) permissionsCondition(v *session, before condition.Set) (v1alpha1.Condition, bool) {
	e := v.memory
	_, told := before.Get(v1alpha1.DefinitionPermissionsGranted)
	if e.review.needs == "" && v.review.err == nil || v.review.err == nil && v.account.User == "" && e.review.missing.isEmpty() && !told {
		return v1alpha1.Condition{}, false
	}
	who := cmp.Or(v.account.User, "the controllers")
	c := v1alpha1.Condition{Type: v1alpha1.DefinitionPermissionsGranted, Status: condition.True, Reason: "Granted", Message: who + " may do all that instances need"}
	switch {
	case v.review.err != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, "ReviewFailed"
		c.Message = "cannot determine what " + who + " may do: " + kube.RedactedMessage(v.review.err)
	case !e.review.missing.isEmpty():
		c.Status, c.Reason, c.Message = condition.False, "Forbidden", e.review.message
	}
	return c, true
}

// message says what is missing, of whom, and how to grant it. The controllers' own name is
// empty while it isn't known.
func (p permissions) message(account, controllers string, key object.Key) string {
	command := "espalier rbac " + commandArguments(key)
	if len(p.controllers) > 0 && controllers != "" {
		command += " " + rbac.Argument(rbac.User(controllers))
		controllers = "The controllers (" + controllers + ")"
	} else {
		controllers = "The controllers"
	}
	var texts []string
	tell := func(who, verb string, needs []rbac.Need) {
		if len(needs) > 0 {
			texts = append(texts, who+" "+verb+": "+strings.Join(rbac.Texts(needs), "; "))
		}
	}
	tell(account, "lacks", p.account)
	tell(controllers, "lack", p.controllers)
	return "rights are missing without which instances can't be looked after; grant them by the roles and bindings that '" + command + "' prints. " + strings.Join(texts, ". ")
}

// commandArguments name a definition to a command.
func commandArguments(key object.Key) string {
	if key.Namespace != "" {
		return key.Name + " --namespace " + key.Namespace
	}
	return key.Name
}

// requeue is when to look at the definition without being told to.
func (v *session) requeue(out reconcile.Result) reconcile.Result {
	patience := v.review.requeueAfter
	if v.kindAbsent && (patience == 0 || patience > kube.BuiltInAge) {
		patience = kube.BuiltInAge
	}
	if patience > 0 && out.Err == nil && (out.RequeueAfter == 0 || patience < out.RequeueAfter) {
		return reconcile.RequeueAfter(patience)
	}
	return out
}
