package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// rollbackFlags are the flags of rollback.
type rollbackFlags struct {
	where     clusterFlags
	namespace string
	to        int64
	end       bool
	wait      time.Duration
}

func newRollback() *cobra.Command {
	var flags rollbackFlags
	cmd := &cobra.Command{
		Use:   "rollback DEFINITION",
		Short: "Roll the instances of a definition back to an earlier revision",
		Long: "Composes all instances of a definition with an earlier revision of it, at once, except\n" +
			"those that select a revision themselves. The definition stays unchanged: the rollback\n" +
			"is an annotation on it, and lasts until the next revision is created, or\n" +
			"until --end. It ends a rollout in progress: instances that were updated go back to the\n" +
			"serving revision.\n\n" +
			"The command waits until the revision serves. If it cannot serve, the command fails; the\n" +
			"rollback stays recorded, and the previous revision serves.\n\n" +
			"DEFINITION is the name of a ResourceGraphDefinition or, with --namespace, of a\n" +
			"ResourceGroup; composition/NAME is a Composition. 'kubectl get graphrevisions' or\n" +
			"'kubectl get compositionrevisions' lists its revisions. Without permission to list them,\n" +
			"as with a Role in a namespace, --to is required.\n\n" +
			"graph/NAME is a Graph with spec.revisionHistoryLimit. An earlier spec is written into it,\n" +
			"with your permissions; 'kubectl get controllerrevisions' lists its revisions.",
		Example: "  espalier rollback shop --to 3\n" +
			"  espalier rollback shop --end\n" +
			"  espalier rollback composition/stores --to 1\n" +
			"  espalier rollback graph/shop --namespace apps",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("rollback takes the name of a definition, not %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch to := cmd.Flags().Changed("to"); {
			case to && flags.end:
				return &usageError{fmt.Errorf("--to and --end exclude each other")}
			case to && flags.to < 1:
				return &usageError{fmt.Errorf("--to takes the number of a revision, such as 3, not %d", flags.to)}
			}
			if name, isGraph := strings.CutPrefix(args[0], "graph/"); isGraph {
				return rollBackGraph(cmd, flags, name)
			}
			return rollBack(cmd, flags, args[0])
		},
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "the namespace of a ResourceGroup or a Graph")
	cmd.Flags().Int64Var(&flags.to, "to", 0,
		"number of the revision; by default the one before the serving revision or, in a rollout, the serving one")
	cmd.Flags().DurationVar(&flags.wait, "wait", 10*time.Second, "timeout for the revision to serve; 0 to not wait")
	cmd.Flags().BoolVar(&flags.end, "end", false, "end a rollback: instances follow the definition again")
	return cmd
}

// versioned is a definition or a composition that is rolled back.
type versioned struct {
	client dynamic.Interface
	of     dynamic.ResourceInterface
	kind   string
	id     object.Definition
	// revisions are the revisions of a composition at the time of a list; nil for definitions.
	revisions []*apiextensions.CompositionRevision
	version   string
}

// versionedOf finds what a name means.
func versionedOf(client dynamic.Interface, name, namespace string) *versioned {
	out := &versioned{client: client, kind: v1alpha1.ResourceGraphDefinitionKind, id: object.Definition{Name: name, Namespace: namespace}}
	composition, isComposition := strings.CutPrefix(name, "composition/")
	switch {
	case isComposition:
		out.kind, out.id = apiextensions.CompositionKind, object.Definition{Name: composition}
		out.of = client.Resource(apiextensions.GroupVersion.WithResource("compositions"))
	case namespace != "":
		out.kind, out.of = v1alpha1.ResourceGroupKind, client.Resource(v1alpha1.GroupVersion.WithResource("resourcegroups")).Namespace(namespace)
	default:
		out.of = client.Resource(v1alpha1.GroupVersion.WithResource("resourcegraphdefinitions"))
	}
	return out
}

func (v *versioned) String() string { return v.kind + " " + v.id.Name }

// status returns the object with a status that says which revision serves.
func (v *versioned) status(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if v.kind == apiextensions.CompositionKind {
		return withStatus(o, v.revisions)
	}
	return o, nil
}

// plan plans a rollback to a revision, or by default to the one before.
func (v *versioned) plan(ctx context.Context, o *unstructured.Unstructured, to int64) (rollbackPlan, error) {
	if v.kind != apiextensions.CompositionKind {
		all, err := revisionsOf(ctx, v.client, v.id)
		if apierrors.IsForbidden(err) { // revisions are cluster-scoped, so that a Role in the namespace of a ResourceGroup has none
			return planUnlisted(o, to)
		}
		if err != nil {
			return rollbackPlan{}, err
		}
		return planRollback(o, all, to)
	}
	var err error
	if v.revisions, v.version, err = compositionRevisionsOf(ctx, v.client, v.id.Name); err != nil {
		return rollbackPlan{}, err
	}
	if o, err = v.status(o); err != nil {
		return rollbackPlan{}, err
	}
	return planRollback(o, graphRevisions(v.revisions), to)
}

func rollBack(cmd *cobra.Command, flags rollbackFlags, name string) error {
	ctx := cmd.Context()
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	v := versionedOf(client, name, flags.namespace)
	o, err := v.of.Get(ctx, v.id.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s not found", v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", v, err)
	}
	plan := rollbackPlan{End: true}
	if !flags.end {
		if plan, err = v.plan(ctx, o, flags.to); err != nil {
			return fmt.Errorf("%s: %w", v, err)
		}
	}
	patch, err := json.Marshal(plan.patch(o.GetUID()))
	if err != nil {
		return err
	}
	patched, err := v.of.Patch(ctx, v.id.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "espalier-rollback"})
	if err != nil {
		return fmt.Errorf("annotate %s: %w", v, err)
	}
	if !plan.End && flags.wait > 0 {
		if problem := plan.follow(ctx, v, patched, flags.wait); problem != "" {
			return fmt.Errorf("%s: the rollback to revision %d is recorded, but it does not serve: %s; --end ends the rollback", v, plan.To, problem)
		}
	}
	fmt.Fprint(prose(cmd.OutOrStdout()), plan.sentence(v.kind, v.id.Name))
	return nil
}

// follow waits until the controllers have answered the rollback of a definition. It returns why the revision does not serve; empty if it does.
func (t rollbackPlan) follow(ctx context.Context, v *versioned, patched *unstructured.Unstructured, wait time.Duration) (problem string) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// The state of a composition is on its revisions.
	since, composition := patched.GetResourceVersion(), (*unstructured.Unstructured)(nil)
	if v.kind == apiextensions.CompositionKind {
		since, composition = v.version, patched
	}
	watcher := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if composition != nil {
			o.LabelSelector = labels.Set{apiextensions.CompositionNameLabel: v.id.Name}.String()
			return v.client.Resource(apiextensions.GroupVersion.WithResource("compositionrevisions")).Watch(ctx, o)
		}
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", patched.GetName()).String()
		return v.of.Watch(ctx, o)
	}}
	shown, err := v.status(patched)
	if err != nil {
		return err.Error()
	}
	patched = shown
	before, _ := condition.Read(patched).Get(v1alpha1.DefinitionRevisionsResolved)
	if problem, final := t.answer(before, patched); final {
		return problem
	}
	_, err = watchtools.Until(ctx, since, watcher, func(e watch.Event) (done bool, err error) {
		now, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return false, nil
		}
		if composition != nil {
			if err := v.changed(now); err != nil {
				return false, err
			}
			now = composition
		}
		if now, err = v.status(now); err != nil {
			return false, err
		}
		problem, done = t.answer(before, now)
		return done, nil
	})
	switch {
	case err == nil || problem != "":
		return problem
	case before.Status == condition.False:
		return before.Message // it has stayed
	}
	return fmt.Sprintf("the controllers have not answered within %s", wait)
}

// answer returns why the revision does not serve, empty if it does, and whether that is the answer of the controllers to the rollback. Before is the
// condition of the definition when the rollback was recorded, which is about another revision.
func (t rollbackPlan) answer(before v1alpha1.Condition, definition *unstructured.Unstructured) (problem string, final bool) {
	now, _ := condition.Read(definition).Get(v1alpha1.DefinitionRevisionsResolved)
	serving, _, _ := unstructured.NestedInt64(definition.Object, "status", "servingRevision")
	switch {
	case serving == t.To && now.Status == condition.True:
		return "", true
	case now.Status != condition.False || now.Reason == before.Reason && now.Message == before.Message:
		return "", false
	}
	return now.Message, now.Reason != v1alpha1.ReasonKindNotReady // the kind is changed for the revision at first
}

// revisionsOf lists the revisions of a definition, in their order.
func revisionsOf(ctx context.Context, client dynamic.Interface, d object.Definition) ([]*rev.GraphRevision, error) {
	list, err := client.Resource(rev.GroupVersion.WithResource("graphrevisions")).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{v1alpha1.DefinitionNameLabel: object.LabelValue(d.Name)}.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("read the revisions of %s: %w", d.Name, err)
	}
	var out []*rev.GraphRevision
	for _, o := range list.Items {
		one := &rev.GraphRevision{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one); err != nil {
			return nil, fmt.Errorf("decode GraphRevision %s: %w", o.GetName(), err)
		}
		if revision.BelongsTo(one, d) {
			out = append(out, one)
		}
	}
	revision.Sort(out)
	return out, nil
}

// rollbackPlan begins or ends a rollback. Rolling is the revision of the rollout that it ends, if
// one is in progress.
type rollbackPlan struct {
	To, From, Serving, Rolling int64
	End                        bool
}

// planRollback plans a rollback to a revision. With 0 it is the serving revision during a
// rollout, and otherwise the one before the serving revision.
func planRollback(definition *unstructured.Unstructured, all []*rev.GraphRevision, to int64) (rollbackPlan, error) {
	newest := revision.Newest(all)
	if newest == nil {
		return rollbackPlan{}, fmt.Errorf("it has no revision")
	}
	serving, _, _ := unstructured.NestedInt64(definition.Object, "status", "servingRevision")
	out := rollbackPlan{To: to, From: newest.Spec.Revision, Serving: serving, Rolling: rollingRevision(definition)}
	if to == 0 && out.Rolling != 0 {
		out.To = serving // the revision of the instances that the rollout has not updated
	} else if to == 0 {
		for _, one := range all {
			if one.DeletionTimestamp == nil && one.Spec.Revision < serving {
				out.To = one.Spec.Revision
			}
		}
		if out.To == 0 {
			return rollbackPlan{}, fmt.Errorf("there is no revision before the serving revision %d; there are %s", serving, revision.ListNumbers(all))
		}
	}
	one := revision.FindNumber(all, out.To)
	if one == nil {
		return rollbackPlan{}, fmt.Errorf("there is no revision %d; there are %s", out.To, revision.ListNumbers(all))
	}
	if verified, _ := condition.Set(one.Status.Conditions).Get(rev.GraphVerified); verified.Status == condition.False {
		return rollbackPlan{}, fmt.Errorf("revision %d cannot serve: %s", out.To, verified.Message)
	}
	return out, nil
}

// planUnlisted plans a rollback for somebody who may not list revisions. Whether the given revision exists and can serve, the
// controllers check.
func planUnlisted(definition *unstructured.Unstructured, to int64) (rollbackPlan, error) {
	serving, _, _ := unstructured.NestedInt64(definition.Object, "status", "servingRevision")
	newest, _, _ := unstructured.NestedInt64(definition.Object, "status", "lastIssuedRevision")
	out := rollbackPlan{To: to, From: newest, Serving: serving, Rolling: rollingRevision(definition)}
	if to == 0 && out.Rolling != 0 {
		out.To = serving
	}
	switch {
	case newest == 0:
		return rollbackPlan{}, fmt.Errorf("it has no revision")
	case out.To == 0:
		return rollbackPlan{}, fmt.Errorf("you are not allowed to list its revisions, so the one before the serving revision %d is unknown; name a revision with --to", serving)
	case out.To > newest:
		return rollbackPlan{}, fmt.Errorf("there is no revision %d; the newest is %d", out.To, newest)
	}
	return out, nil
}

// rollingRevision is the revision that is being rolled out; 0 for none.
func rollingRevision(definition *unstructured.Unstructured) int64 {
	phase, _, _ := unstructured.NestedString(definition.Object, "status", "rollout", "phase")
	n, _, _ := unstructured.NestedInt64(definition.Object, "status", "rollout", "revision")
	if v1alpha1.RolloutPhase(phase) == v1alpha1.RolloutComplete {
		return 0
	}
	return n
}

// patch is the merge patch of the definition with the given UID.
func (t rollbackPlan) patch(uid types.UID) map[string]any {
	annotations := map[string]any{v1alpha1.RollbackAnnotation: nil, v1alpha1.RollbackFromAnnotation: nil}
	if !t.End {
		annotations[v1alpha1.RollbackAnnotation] = strconv.FormatInt(t.To, 10)
		annotations[v1alpha1.RollbackFromAnnotation] = strconv.FormatInt(t.From, 10)
	}
	return map[string]any{"metadata": map[string]any{"uid": uid, "annotations": annotations}}
}

// sentence says what the plan does to a definition.
func (t rollbackPlan) sentence(kind, name string) string {
	return fmt.Sprintf("%s %s %s\n", kind, name, t)
}

// String describes the plan as the predicate of a sentence about the definition.
func (t rollbackPlan) String() string {
	switch {
	case t.End:
		return "is no longer rolled back"
	case t.To == t.Serving && t.Rolling != 0:
		return fmt.Sprintf("rolls back from revision %d, which was being rolled out, to %d, until there is a revision after %d", t.Rolling, t.To, t.From)
	case t.To == t.Serving:
		return fmt.Sprintf("stays at revision %d until there is a revision after %d", t.To, t.From)
	}
	return fmt.Sprintf("rolls back from revision %d to %d, until there is a revision after %d", t.Serving, t.To, t.From)
}
