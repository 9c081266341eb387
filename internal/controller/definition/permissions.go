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
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/rights"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// permissions are rights that a definition's instances are looked after with: those of the
// account that it names, and those of the controllers themselves. Without an account all are
// the controllers'.
type permissions struct{ account, controllers []rights.Need }

func (p permissions) none() bool { return len(p.account)+len(p.controllers) == 0 }

// remembered is for how long it is taken for true what is allowed: definitions that are
// compiled at the same time, after a start, ask once.
const remembered = 10 * time.Second

// authorize asks whether all is allowed that instances are looked after with. It is woken
// when that changes, and tells of it.
func (r *Reconciler) authorize(ctx context.Context, v *visit) {
	needs := r.needs(ctx, v)
	if needs.none() || v.account.Cluster == nil {
		return
	}
	before := v.entry.lacks
	r.review(ctx, v, needs)
	if v.unasked != nil {
		return
	}
	lacks := v.entry.lacks
	r.Registry.setPermissions(v.entry, v.account.User, lacks)
	r.announcePermissions(ctx, v)
	r.recheck(v.account.Hub, lacks.account, before.account)
	r.recheck(r.Hub, lacks.controllers, before.controllers)
	if regained := before.without(lacks); !regained.none() && v.entry.serving != nil {
		for _, o := range r.Hub.Select(v.entry.serving.Kind, "", labels.Everything()) {
			v.entry.serving.Wake(object.KeyOf(o), watch.Background) // it may have failed for want of these
		}
	}
}

// recheck looks whether what may no longer be watched still is: open watches go on for a
// while, and instances must not count on them.
func (r *Reconciler) recheck(hub *watch.Hub, lacks, before []rights.Need) {
	for _, n := range without(lacks, before) {
		if n.Verb == "list" || n.Verb == "watch" {
			hub.Recheck(schema.GroupResource{Group: n.Group, Resource: n.Resource})
		}
	}
}

// announcePermissions tells, each once, that rights are missing and which, and that none are
// any more. It doesn't take a status that can be written.
func (r *Reconciler) announcePermissions(ctx context.Context, v *visit) {
	e := v.entry
	if e.lacks.none() {
		if e.missing != "" {
			r.Events.Event(v.raw, telemetry.Normal, "PermissionsGranted", "all rights are granted that instances need")
		}
		e.missing = ""
		return
	}
	text := e.lacks.missing(v.account.User, r.Cluster.User(ctx), v.key)
	was, _ := condition.Read(v.raw).Get(v1alpha1.DefinitionPermissionsGranted)
	if text != e.missing && (e.missing != "" || was.Message != text) { // else a run before this one has
		r.Events.Event(v.raw, telemetry.Warning, "PermissionsMissing", text)
		logr.FromContextOrDiscard(ctx).Info("warning: rights are missing", "message", text)
	}
	e.missing = text
}

func (p permissions) without(o permissions) permissions {
	return permissions{without(p.account, o.account), without(p.controllers, o.controllers)}
}

// without are the needs that aren't among others.
func without(needs, others []rights.Need) []rights.Need {
	return slices.DeleteFunc(slices.Clone(needs), func(n rights.Need) bool { return slices.Contains(others, n) })
}

// needs are the rights that instances are looked after with, by what the definition is, by
// what is to serve, and by what serves: an invalid definition's instances go on.
func (r *Reconciler) needs(ctx context.Context, v *visit) (all permissions) {
	var specs []*v1alpha1.DefinitionSpec
	if v.compiled.graph != nil {
		specs = append(specs, v.spec)
	}
	if v.lead.compilation != nil && v.lead.spec != nil {
		specs = append(specs, v.lead.spec)
	}
	for _, n := range revision.StateOf(v.status).Revisions() {
		if one := revision.Numbered(v.revisions, n); one != nil {
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
		all.controllers = append(all.controllers, rights.Impersonate(named.Namespace, named.Name))
	}
	return permissions{rights.Distinct(all.account), rights.Distinct(all.controllers)}
}

// review asks what is allowed: when something else is needed, when it may have changed, and
// as long as something lacks.
func (r *Reconciler) review(ctx context.Context, v *visit, needs permissions) {
	e, now := v.entry, r.Now()
	grants := r.impersonation(v)
	asked := object.Digest([]any{
		v.account.User, needs.account, needs.controllers,
		v.account.Cluster.Epoch(), r.Cluster.Epoch(), grants, // before it is asked: what changes meanwhile is news
	})
	if e.grants != grants {
		e.grants, e.confirm = grants, now.Add(confirmed)
	}
	confirming := !e.confirm.IsZero() && !now.Before(e.confirm)
	if confirming {
		e.confirm = time.Time{}
	}
	defer func() { v.confirm(e.confirm, now) }()
	if e.asked == asked && e.lacks.none() && !confirming {
		return
	}
	since := now.Add(-remembered)
	if e.asked == asked {
		since = now
	}
	lacks, err := r.lacking(ctx, v, needs, since)
	if err != nil {
		v.unasked = err
		e.asked = ""
		v.patience = e.lacking.next(true, now)
		return
	}
	v.patience = e.lacking.next(!lacks.none(), now)
	e.asked, e.lacks = asked, lacks
}

// confirmed is when it is asked once more what is allowed after a role of a namespace has
// changed: it takes the API server a moment to go by it, of which it doesn't tell.
const confirmed = 3 * time.Second

// confirm asks for a pass at a time; zero for none.
func (v *visit) confirm(at, now time.Time) {
	if at.IsZero() {
		return
	}
	if wait := max(at.Sub(now), time.Millisecond); v.patience == 0 || wait < v.patience {
		v.patience = wait
	}
}

// impersonation names the state of what lets the controllers act as the account, as far as
// that is granted by the objects that are printed for it. What is granted in one namespace
// isn't listed with what is granted in all.
func (r *Reconciler) impersonation(v *visit) string {
	if v.account.Named.Name == "" {
		return ""
	}
	var states []string
	for _, gvk := range inNamespaces {
		o, _ := v.lease.Object(gvk, v.account.Named.Namespace, rights.ControllersRoleOf(v.key.Namespace, v.key.Name))
		if o != nil {
			states = append(states, o.GetResourceVersion())
		}
	}
	return strings.Join(states, ",")
}

// lacking is what of the needs is not granted. What the account may do isn't known while the
// controllers may not act as it: then that is what lacks.
func (r *Reconciler) lacking(ctx context.Context, v *visit, needs permissions, since time.Time) (lacks permissions, err error) {
	if lacks.controllers, err = r.Cluster.Lacks(ctx, needs.controllers, since); err != nil {
		return permissions{}, err
	}
	if slices.ContainsFunc(lacks.controllers, func(n rights.Need) bool { return n.Verb == rights.Impersonation }) {
		return lacks, nil
	}
	lacks.account, err = v.account.Cluster.Lacks(ctx, needs.account, since)
	return lacks, err
}

// lacking is how often in vain it was asked for rights. That they are granted is seen, but
// not when the API server has heard of it.
type lacking struct {
	times int
	due   time.Time
}

const (
	firstAsk   = time.Second
	slowestAsk = 5 * time.Minute
)

// next is when to ask again. Whoever comes before that was told of something new.
func (l *lacking) next(still bool, now time.Time) time.Duration {
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

// permitted is the condition that tells what is lacking; none where there is nothing to
// say: this program has all rights that it needs, as it is expected to.
func (r *Reconciler) permitted(v *visit, before condition.Set) (v1alpha1.Condition, bool) {
	e := v.entry
	_, told := before.Get(v1alpha1.DefinitionPermissionsGranted)
	if e.asked == "" && v.unasked == nil || v.unasked == nil && v.account.User == "" && e.lacks.none() && !told {
		return v1alpha1.Condition{}, false
	}
	who := cmp.Or(v.account.User, "the controllers")
	c := v1alpha1.Condition{Type: v1alpha1.DefinitionPermissionsGranted, Status: condition.True, Reason: "Granted", Message: who + " may do all that instances need"}
	switch {
	case v.unasked != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, "ReviewFailed"
		c.Message = "cannot determine what " + who + " may do: " + cluster.Discreet(v.unasked)
	case !e.lacks.none():
		c.Status, c.Reason, c.Message = condition.False, "Forbidden", e.missing
	}
	return c, true
}

// missing says what is missing, of whom, and how to grant it. The controllers' own name is
// empty while it isn't known.
func (p permissions) missing(account, controllers string, key object.Key) string {
	command := "espalier rbac " + arguments(key)
	if len(p.controllers) > 0 && controllers != "" {
		command += " " + rights.Argument(rights.User(controllers))
		controllers = "The controllers (" + controllers + ")"
	} else {
		controllers = "The controllers"
	}
	var texts []string
	tell := func(who, verb string, needs []rights.Need) {
		if len(needs) > 0 {
			texts = append(texts, who+" "+verb+": "+strings.Join(rights.Texts(needs), "; "))
		}
	}
	tell(account, "lacks", p.account)
	tell(controllers, "lack", p.controllers)
	return "rights are missing without which instances can't be looked after; grant them by the roles and bindings that '" + command + "' prints. " + strings.Join(texts, ". ")
}

// arguments name a definition to a command.
func arguments(key object.Key) string {
	if key.Namespace != "" {
		return key.Name + " --namespace " + key.Namespace
	}
	return key.Name
}

// again is when to look at the definition without being told to.
func (v *visit) again(out outcome.Outcome) outcome.Outcome {
	patience := v.patience
	if v.absent && (patience == 0 || patience > cluster.BuiltInAge) {
		patience = cluster.BuiltInAge
	}
	if patience > 0 && out.Err == nil && (out.After == 0 || patience < out.After) {
		return outcome.Wait(patience)
	}
	return out
}
