package definition

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/revision"
	"github.com/espalier-dev/espalier/internal/rights"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Account is by whose rights the instances of a definition are looked after.
type Account struct {
	// User is who that is; empty for this program itself.
	User    string
	Named   v1alpha1.ServiceAccount
	Cluster *cluster.Client
	Hub     *watch.Hub
}

// accountOf says which service account a definition names, or what is wrong with it; the
// rest of the definition may be unreadable. One in a namespace can't act with the rights of
// another: whoever may write definitions there has no say over those.
func accountOf(owner inventory.Definition, definition *unstructured.Unstructured) (named v1alpha1.ServiceAccount, problem string) {
	value, is, _ := unstructured.NestedFieldNoCopy(definition.Object, "spec", "serviceAccount")
	if !is || value == nil {
		return named, ""
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return named, "is no service account: it has to have a namespace and a name"
	}
	named.Namespace, _ = fields["namespace"].(string)
	named.Name, _ = fields["name"].(string)
	switch {
	case named.Name == "":
		return v1alpha1.ServiceAccount{}, "names no service account"
	case owner.Namespace == "" && named.Namespace == "":
		return v1alpha1.ServiceAccount{}, "has to say in which namespace the service account is: the definition is in none"
	case owner.Namespace != "" && named.Namespace != "" && named.Namespace != owner.Namespace:
		return v1alpha1.ServiceAccount{}, fmt.Sprintf("is in namespace %s; a definition in %s takes service accounts of that namespace only", named.Namespace, owner.Namespace)
	case named.Namespace == "":
		named.Namespace = owner.Namespace
	}
	return named, ""
}

// engage finds the account by whose rights instances are looked after: the one that the
// definition names, whether the rest of it can be used or not. While that can't be told they
// stay in charge of whom they were in before, as is known here or as the status tells, and
// otherwise of nobody: a mistake doesn't widen rights.
func (r *Reconciler) engage(v *visit) {
	named, problem := accountOf(v.owner, v.raw)
	if problem == "" {
		var err error
		if v.account, err = r.As(named); err == nil {
			return
		}
		problem = err.Error()
	}
	v.compiled.problems.Addf("spec.serviceAccount", "%s", problem)
	if v.account = v.entry.account; v.account.Cluster == nil && v.status.ServingRevision != 0 {
		var was v1alpha1.ServiceAccount // none is for this program's own rights
		if told := v.status.ServiceAccount; told != nil {
			was = *told
		}
		if was.Name != "" && v.owner.Namespace != "" && was.Namespace != v.owner.Namespace {
			return // whoever writes that has no say over others' accounts
		}
		if account, err := r.As(was); err == nil {
			v.account = account
		}
	}
}

// remembered is for how long it is taken for true what is allowed: definitions that are
// compiled at the same time, after a start, ask once.
const remembered = 10 * time.Second

// authorize asks whether all is allowed that instances are looked after with, and, while
// something lacks, to be woken when rights are granted.
func (r *Reconciler) authorize(ctx context.Context, v *visit) {
	needs := r.needs(ctx, v)
	if len(needs) == 0 || v.account.Cluster == nil {
		return
	}
	r.review(ctx, v, needs)
	if len(v.entry.lacks) == 0 && v.unasked == nil {
		return
	}
	for _, gvk := range grants {
		v.lease.Want(watch.Matching(gvk, "", labels.Everything()))
	}
}

// needs are the rights that instances are looked after with, by what the definition is, by
// what is to serve, and by what serves: an invalid definition's instances go on.
func (r *Reconciler) needs(ctx context.Context, v *visit) (all []rights.Need) {
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
	seen := map[rights.Need]bool{}
	for _, spec := range specs {
		needs, _ := graph.Needs(spec, func(gvk schema.GroupVersionKind) (string, bool) {
			served, err := r.Kinds.Resolve(ctx, gvk)
			return served.GVR.Resource, err == nil
		})
		for _, n := range needs {
			if !seen[n] {
				seen[n] = true
				all = append(all, n)
			}
		}
	}
	return all
}

// review asks once for what there is to be allowed, and again as long as something lacks.
func (r *Reconciler) review(ctx context.Context, v *visit, needs []rights.Need) {
	e, now := v.entry, r.Now()
	asked := object.Digest([]any{v.account.User, needs})
	if e.asked == asked && len(e.lacks) == 0 {
		return
	}
	since := now.Add(-remembered)
	if e.asked == asked {
		since = now
	}
	lacks, err := v.account.Cluster.Lacks(ctx, needs, since)
	if err != nil {
		v.unasked = err
		e.asked = ""
		v.patience = e.lacking.next(true, now)
		return
	}
	v.patience = e.lacking.next(len(lacks) > 0, now)
	e.asked, e.lacks = asked, lacks
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

// grants are the kinds that say who may do what.
var grants = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
}

// permissions is the condition that tells what is lacking; none where there is nothing to
// say: this program has all rights that it needs, as it is expected to.
func (r *Reconciler) permissions(v *visit, before condition.Set) (v1alpha1.Condition, bool) {
	e := v.entry
	_, told := before.Get(v1alpha1.DefinitionPermissionsGranted)
	if e.asked == "" && v.unasked == nil || v.unasked == nil && v.account.User == "" && len(e.lacks) == 0 && !told {
		return v1alpha1.Condition{}, false
	}
	who := v.account.User
	if who == "" {
		who = "the controller"
	}
	c := v1alpha1.Condition{Type: v1alpha1.DefinitionPermissionsGranted, Status: condition.True, Reason: "Granted", Message: who + " may do all that instances need"}
	switch {
	case v.unasked != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, "ReviewFailed"
		c.Message = "it can't be told what " + who + " may do: " + cluster.Discreet(v.unasked)
	case len(e.lacks) > 0:
		c.Status, c.Reason = condition.False, "Forbidden"
		c.Message = fmt.Sprintf("%s lacks rights in all namespaces, without which instances can't be looked after; grant them by a ClusterRole and a ClusterRoleBinding, as 'espalier rbac %s' prints them: %s",
			who, arguments(v.key), strings.Join(rights.Texts(e.lacks), "; "))
	}
	return c, true
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
	if v.patience > 0 && out.Err == nil && (out.After == 0 || v.patience < out.After) {
		return outcome.Wait(v.patience)
	}
	return out
}
