package simulation

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// PreviewOptions are what a preview is made of.
type PreviewOptions struct {
	// Objects are applied to the cluster, as it is shown to the controllers.
	Objects []Applied
	// Namespace is that of namespaced objects without one.
	Namespace string
	// FieldManager applies objects on the server that nobody has applied yet; empty to apply them as
	// kubectl apply does on the client.
	FieldManager string
	// Against is the name of a GraphRevision or CompositionRevision. The changes are then those from the
	// instances as that revision composes them, and not from what exists. Empty for what exists.
	Against string
	// Timeout bounds the simulation.
	Timeout time.Duration
}

// Preview returns what the controllers would do if objects were applied to a cluster. It runs the
// controllers until they are idle, applies the objects, and runs them again; the API server checks what
// is written and stores none of it. What the controllers would do without the objects is not part of it.
//
// It needs the permissions of the controllers, and those to write the objects.
func Preview(ctx context.Context, o server.ManagerOptions, p PreviewOptions) (preview.Plan, error) {
	live, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return preview.Plan{}, fmt.Errorf("connect to the API server: %w", err)
	}
	cluster, err := readPreviewed(ctx, live, o, p.Against)
	if err != nil {
		return preview.Plan{}, err
	}
	o.MoreColumns, o.Graphs = o.MoreColumns || cluster.moreColumns, o.Graphs || cluster.graphs
	overlay := dryrun.New()
	convertObjects(overlay)
	config := overlay.Wrap(o.Config)
	planned, err := dynamic.NewForConfig(config)
	if err != nil {
		return preview.Plan{}, fmt.Errorf("connect to the API server: %w", err)
	}
	decisions, failures := &decisions{}, &Failures{}
	c, err := server.NewControllers(server.Options{
		Config: config, Settings: o.Simulated(), Log: logr.Discard(), Events: telemetry.NoEvents{}, Observe: failures.Observe, Decided: decisions.note,
		ConversionEndpoint: cluster.endpoint,
		Functions:          o.Functions, Version: o.Version,
	})
	if err != nil {
		return preview.Plan{}, err
	}
	run := &previewRun{overlay: overlay, client: planned, live: live, engineKinds: c.Engine.Kinds, decisions: decisions, failures: failures,
		against: cluster.against}
	run.applier = &Applier{Client: planned, Kinds: c.Kinds, Namespace: p.Namespace, FieldManager: p.FieldManager}
	run.applier.Add(p.Objects...)
	err = Simulation{Controllers: Controlled{c}, Overlay: overlay}.Run(ctx, p.Timeout, run.step)
	return run.plan, err
}

// previewed is what a preview has to know of the cluster beforehand, so that the controllers change only what they would
// change there.
type previewed struct {
	// moreColumns says that the served kinds have the additional printer columns.
	moreColumns bool
	// graphs says that Graphs are served.
	graphs bool
	// endpoint is the address of the conversion webhook; nil if there is none.
	endpoint *install.Endpoint
	// against is the revision to compare with; nil for none.
	against *against
}

// readPreviewed reads that from the cluster. It refuses a cluster in which the controllers would not start, or
// would do nothing since there is a Hold.
func readPreviewed(ctx context.Context, live dynamic.Interface, o server.ManagerOptions, revision string) (cluster previewed, err error) {
	found, err := server.Check(ctx, o)
	if err != nil {
		return cluster, err
	}
	if found.Refused != nil {
		return cluster, fmt.Errorf("the controllers would not start: %w", found.Refused)
	}
	if err = RefuseHeld(ctx, live); err != nil {
		return cluster, err
	}
	if cluster.moreColumns, err = ServesMoreColumns(ctx, live); err != nil {
		return cluster, err
	}
	if cluster.graphs, err = servesGraphs(ctx, live); err != nil {
		return cluster, err
	}
	if cluster.endpoint, err = servedEndpoint(ctx, live); err != nil {
		return cluster, err
	}
	if revision != "" {
		cluster.against, err = findAgainst(ctx, live, revision)
	}
	return cluster, err
}

// decisions collects what is decided for instances. It is safe for concurrent use.
type decisions struct {
	mu  sync.Mutex
	all map[object.Key]plan.Plan
	// observe is called with each decision; it may be nil.
	observe func(object.Key, plan.Facts, plan.Plan)
}

func (d *decisions) note(key object.Key, facts plan.Facts, p plan.Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[object.Key]plan.Plan{}
	}
	d.all[key] = p
	if d.observe != nil {
		d.observe(key, facts, p)
	}
}

// setObserver sets the function that is called with each decision from now on, one at a time.
func (d *decisions) setObserver(observe func(object.Key, plan.Facts, plan.Plan)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observe = observe
}

func (d *decisions) last() map[object.Key]plan.Plan {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.all)
}

// previewRun is a simulation of what objects would change.
type previewRun struct {
	overlay *dryrun.Overlay
	// client reads through the overlay, live does not.
	client, live dynamic.Interface
	applier      *Applier
	engineKinds  func() []schema.GroupVersionKind
	decisions    *decisions
	failures     *Failures

	// against is what the plan compares with; nil for what exists. Compared says that it composes the instances.
	against  *against
	compared bool
	// anyway is the number of objects that would change without the files.
	anyway int
	// baseline are the changes without the objects, once they are known.
	baseline map[object.Key]dryrun.Change
	failed   map[object.Key]string
	plan     preview.Plan
}

// step implements Step: it records what would change anyway, then applies the objects as far
// as their kinds are served, and at the end makes the plan.
func (r *previewRun) step(ctx context.Context, settled bool) (again bool, err error) {
	if r.baseline == nil {
		if !settled {
			return false, errors.New("the controllers were still busy with the cluster as it is when the time was over; raise --wait")
		}
		r.noteBaseline()
		r.anyway = r.countBaseline()
		if r.against != nil {
			return true, r.against.apply(ctx, r.client)
		}
	}
	if r.against != nil && !r.compared {
		if !settled {
			return false, fmt.Errorf("the controllers were still busy with %s when the time was over; raise --wait", r.against.revision)
		}
		r.compared = true
		r.noteBaseline()
		if err := r.against.restore(ctx, r.client); err != nil {
			return false, err
		}
		if _, err := r.applier.Next(ctx); err != nil {
			return false, err
		}
		return true, nil
	}
	if settled {
		applied, err := r.applier.Next(ctx)
		if err != nil || applied {
			return true, err
		}
		if r.against != nil {
			if ended, err := r.against.endRollout(ctx, r.client); err != nil || ended {
				return true, err
			}
		}
	}
	r.plan = r.finish(ctx, settled)
	return false, nil
}

// noteBaseline records what has changed so far.
func (r *previewRun) noteBaseline() {
	r.baseline, r.failed = map[object.Key]dryrun.Change{}, r.failures.Messages()
	for _, c := range r.overlay.Changes() {
		r.baseline[keyOfChange(c)] = c
	}
}

func keyOfChange(c dryrun.Change) object.Key {
	if c.After != nil {
		return object.KeyOf(c.After)
	}
	return object.KeyOf(c.Before)
}

// finish makes the plan of what the overlay has.
func (r *previewRun) finish(ctx context.Context, settled bool) preview.Plan {
	objects, changed := r.withoutConcurrent(ctx, r.objects())
	in := preview.Input{Objects: objects, Decisions: r.decisions.last(), Problems: r.applier.Problems(), Incomplete: !settled}
	if changed > 0 {
		in.Notes = append(in.Notes, fmt.Sprintf("%s changed by another client while the plan was made; it is left out. Plan again.",
			diag.Counted(changed, "object was", "objects were")))
	}
	for key, why := range r.failures.Messages() {
		if _, known := r.failed[key]; !known {
			in.Problems = append(in.Problems, preview.Problem{Object: key.String(), Reason: "ReconcileFailed", Message: why, Remedy: "fix the cause, and plan again"})
		}
	}
	var unread []string
	in.Secrets, unread = r.secrets(ctx, in.Objects)
	if len(unread) > 0 {
		in.Notes = append(in.Notes, fmt.Sprintf("Secrets in %v cannot be read; their values are hidden only where a definition shows their use.", unread))
	}
	if r.against != nil {
		in.Notes = append(in.Notes, fmt.Sprintf("Compared with what %s makes of the instances, not with what exists. Instances that select a revision themselves keep it.", r.against.revision))
	}
	in.Notes = append(in.Notes, rolloutNotes(in.Objects)...)
	if n := r.anyway; n > 0 {
		in.Notes = append(in.Notes, fmt.Sprintf("%s would also change without the files, because the controllers are not running or not done; that is left out.", diag.Counted(n, "object", "objects")))
	}
	return preview.New(in)
}

// rolloutNotes name the definitions that change, and that update only some of their instances in the plan.
func rolloutNotes(objects []preview.Object) []string {
	var notes []string
	for _, o := range objects {
		if o.Before == nil || o.After == nil || o.After.GroupVersionKind().Group != v1alpha1.GroupVersion.Group ||
			equality.Semantic.DeepEqual(o.Before.Object["spec"], o.After.Object["spec"]) {
			continue
		}
		definition := &v1alpha1.ResourceGraphDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.After.Object, definition); err != nil {
			continue // an object of another kind of the group
		}
		at := definition.Status.Rollout
		if at == nil || at.Phase == v1alpha1.RolloutComplete || at.Updated >= at.Total {
			continue
		}
		notes = append(notes, fmt.Sprintf("%s updates its instances in waves: %d of %d have revision %d in this plan, and later waves update the others. "+
			"With --against and the revision that serves them, a plan shows all of them.", object.KeyOf(o.After), at.Updated, at.Total, at.Revision))
	}
	return notes
}

// countBaseline counts the instances and their objects that would change anyway.
func (r *previewRun) countBaseline() int {
	var in preview.Input
	for _, c := range r.baseline {
		in.Objects = append(in.Objects, preview.Object{Before: c.Before, After: c.After, Deletion: c.Deletion})
	}
	in.Decisions = r.decisions.last()
	p, n := preview.New(in), 0
	for _, i := range p.Instances {
		n += len(i.Objects)
	}
	return n
}

// objects are the changes that would not happen anyway.
func (r *previewRun) objects() []plannedObject {
	reconciled := map[schema.GroupKind]bool{}
	for _, gvk := range r.engineKinds() {
		reconciled[gvk.GroupKind()] = true
	}
	var out []plannedObject
	add := func(key object.Key, c dryrun.Change, o preview.Object) {
		o.Reconciled, o.Order = reconciled[key.GroupKind()], c.Order
		if key.Kind == "Secret" && key.Name == v1alpha1.SigningKeySecret || o.Before == nil && o.After == nil {
			return
		}
		if r.against != nil {
			if r.against.isMoved(o.Before, o.After) {
				return
			}
			if key == object.KeyOf(r.against.live) {
				o.Before, o.After = r.against.before, r.against.withRollout(o.After)
			}
		}
		stored := ""
		if c.Before != nil {
			stored = c.Before.GetResourceVersion()
		}
		out = append(out, plannedObject{o, c.Resource, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, stored})
	}
	left := maps.Clone(r.baseline)
	for _, c := range r.overlay.Changes() {
		key := keyOfChange(c)
		o := preview.Object{Before: c.Before, After: c.After, Deletion: c.Deletion}
		if before, known := left[key]; known {
			o.Before, o.Deletion = before.After, c.Deletion && !before.Deletion
		}
		delete(left, key)
		add(key, c, o)
	}
	for key, c := range left { // what would happen anyway would not happen with the files
		add(key, c, preview.Object{Before: c.After, After: c.Before})
	}
	return out
}

// withoutConcurrent leaves out the objects that others have changed since the simulation read them, and
// counts them: what the simulation did with them may be the answer to that.
func (r *previewRun) withoutConcurrent(ctx context.Context, objects []plannedObject) (out []preview.Object, changed int) {
	revisions := map[schema.GroupVersionResource]map[types.NamespacedName]string{}
	for _, o := range objects {
		known, listed := revisions[o.resource]
		if !listed {
			known = r.revisions(ctx, o.resource)
			revisions[o.resource] = known
		}
		if known != nil && known[o.name] != o.stored {
			changed++
			continue
		}
		out = append(out, o.Object)
	}
	return out, changed
}

// revisions are the resource versions of a kind's objects; nil if they cannot be read, for example since
// the kind is not served.
func (r *previewRun) revisions(ctx context.Context, resource schema.GroupVersionResource) map[types.NamespacedName]string {
	list, err := r.live.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	out := map[types.NamespacedName]string{}
	for i := range list.Items {
		o := &list.Items[i]
		out[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o.GetResourceVersion()
	}
	return out
}

// plannedObject is an object that would change, with the revision at which the simulation read it.
type plannedObject struct {
	preview.Object
	resource schema.GroupVersionResource
	name     types.NamespacedName
	stored   string
}

// secrets are the values of Secrets in the namespaces of objects that would change, and the namespaces
// in which they cannot be read.
func (r *previewRun) secrets(ctx context.Context, objects []preview.Object) (values, unread []string) {
	namespaces := map[string]bool{}
	for _, o := range objects {
		for _, state := range []*unstructured.Unstructured{o.Before, o.After} {
			if state != nil && state.GetNamespace() != "" {
				namespaces[state.GetNamespace()] = true
			}
		}
	}
	known := map[string]bool{}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		list, err := r.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			unread = append(unread, namespace)
			continue
		}
		for _, secret := range list.Items {
			data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
			for _, encoded := range data {
				known[encoded] = true
				if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
					known[string(decoded)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(known)), unread
}
