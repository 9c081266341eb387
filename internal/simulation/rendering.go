package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/kube/offline"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// offlineQuiet is for how long no request is made by controllers without an API server that are idle: no
// network is between them.
const offlineQuiet = 250 * time.Millisecond

// Offline is an empty cluster in memory in which the controllers run.
type Offline struct {
	overlay   *dryrun.Overlay
	client    dynamic.Interface
	kinds     *kube.Kinds
	namespace string
	decisions *decisions
	failures  *Failures
	// namespaces are those that have been created.
	namespaces map[string]bool
	applier    *Applier
	settled    bool
	// told is the number of the applier's problems that State has returned.
	told int
}

// OfflineStep is called each time that the controllers are idle. It returns whether they go on.
type OfflineStep func(ctx context.Context, cluster *Offline) (again bool, err error)

// RunOffline runs the controllers in an empty cluster in memory until step is done, or for the timeout at
// most. Of the options it uses those that concern definitions and functions. Objects that name no
// namespace are in the given one. All dialects are served, Graphs, and usages.
func RunOffline(ctx context.Context, o server.ManagerOptions, namespace string, timeout time.Duration, step OfflineStep) error {
	o.Dialects, o.Usages, o.Graphs, o.Workers = nil, true, true, 4
	overlay, config := offline.New()
	convertObjects(overlay)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	cluster := &Offline{overlay: overlay, client: client, namespace: namespace, decisions: &decisions{}, failures: &Failures{},
		namespaces: map[string]bool{}}
	c, err := server.NewControllers(server.Options{
		Config: config, Settings: o.Simulated(), Log: logr.Discard(), Events: telemetry.NoEvents{}, Observe: cluster.failures.Observe,
		Decided: cluster.decisions.note, ConversionEndpoint: &offlineEndpoint, Functions: o.Functions, Operations: o.Operations, Version: o.Version,
	})
	if err != nil {
		return err
	}
	cluster.kinds = c.Kinds
	cluster.applier = &Applier{Client: client, Kinds: c.Kinds, Namespace: namespace}
	for _, name := range []string{namespace, server.DefaultSigningKeyNamespace} {
		if err := cluster.createNamespace(ctx, name); err != nil {
			return err
		}
	}
	s := Simulation{Controllers: Controlled{c}, Overlay: overlay, Quiet: offlineQuiet}
	return s.Run(ctx, timeout, func(ctx context.Context, settled bool) (bool, error) {
		if cluster.settled = settled; settled {
			if applied, err := cluster.applier.Next(ctx); err != nil || applied {
				return true, err
			}
		}
		return step(ctx, cluster)
	})
}

// Settled says that the controllers are idle; they were busy at the timeout otherwise.
func (c *Offline) Settled() bool { return c.settled }

// Apply applies objects as a user does, those of other kinds after their definitions. The step is called
// again once they are applied, as far as their kinds are served.
func (c *Offline) Apply(ctx context.Context, objects ...Applied) error {
	for _, o := range objects {
		if ns := o.Object.GetNamespace(); ns != "" {
			if err := c.createNamespace(ctx, ns); err != nil {
				return err
			}
		}
	}
	c.applier.Add(objects...)
	return nil
}

func (c *Offline) createNamespace(ctx context.Context, name string) error {
	if c.namespaces[name] {
		return nil
	}
	c.namespaces[name] = true
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
		"status": map[string]any{"phase": "Active"}}}
	_, err := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// Observe gives an object the state of a file, as another controller would: fields that the file does not
// have stay. It returns false if there is no such object.
func (c *Offline) Observe(ctx context.Context, o *unstructured.Unstructured) (exists bool, err error) {
	of, err := c.resource(ctx, o)
	if kube.IsNoKindMatch(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	live, err := of.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	patch := o.DeepCopy()
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if values, found, _ := unstructured.NestedMap(o.Object, "metadata", field); found {
			metadata[field] = values
		}
	}
	patch.Object["metadata"] = metadata
	send := func() error {
		raw, err := json.Marshal(patch.Object)
		if err == nil {
			_, err = of.Patch(ctx, o.GetName(), types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "observed", FieldValidation: metav1.FieldValidationStrict})
		}
		return err
	}
	added := withGeneration(patch, live.GetGeneration())
	if err = send(); added && apierrors.IsBadRequest(err) { // not every kind has that field
		unstructured.RemoveNestedField(patch.Object, "status", "observedGeneration")
		err = send()
	}
	return true, err
}

// withGeneration has a status observe the generation of its object, unless it says which it has observed. It returns whether it
// changed the status.
func withGeneration(o *unstructured.Unstructured, generation int64) bool {
	status, ok := o.Object["status"].(map[string]any)
	if _, says := status["observedGeneration"]; !ok || says {
		return false
	}
	status["observedGeneration"] = generation
	return true
}

// Delete deletes an object as a user does, and says whether there is one.
func (c *Offline) Delete(ctx context.Context, o *unstructured.Unstructured) (exists bool, err error) {
	of, err := c.resource(ctx, o)
	if kube.IsNoKindMatch(err) {
		return false, nil
	}
	if err == nil {
		err = of.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return true, err
}

// resource returns the resource of an object, and gives the object the namespace that it has in a cluster.
func (c *Offline) resource(ctx context.Context, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	resource, err := c.kinds.Resolve(ctx, o.GroupVersionKind())
	switch {
	case err != nil:
		return nil, err
	case !resource.Namespaced:
		o.SetNamespace("") // the API server drops it
		return c.client.Resource(resource.GVR), nil
	case o.GetNamespace() == "":
		o.SetNamespace(c.namespace)
	}
	return c.client.Resource(resource.GVR).Namespace(o.GetNamespace()), nil
}

// State returns the objects of the cluster, and what is decided for instances that exist. Refused objects are
// among the problems of the first State after that.
func (c *Offline) State() preview.Input {
	problems := c.applier.Problems()
	in := preview.Input{Decisions: c.decisions.last(), Problems: slices.Clone(problems[c.told:]), Incomplete: !c.settled}
	c.told = len(problems)
	exists := map[object.Key]bool{}
	for _, change := range c.overlay.Changes() {
		in.Objects = append(in.Objects, preview.Object{After: change.After, Deletion: change.Deletion, Order: change.Order})
		if change.After != nil {
			exists[object.KeyOf(change.After)] = true
		}
	}
	for key := range in.Decisions {
		if !exists[key] {
			delete(in.Decisions, key)
		}
	}
	for key, why := range c.failures.Messages() {
		in.Problems = append(in.Problems, preview.Problem{Object: key.String(), Reason: "ReconcileFailed", Message: why})
	}
	for _, o := range in.Objects {
		if o.After != nil {
			in.Problems = append(in.Problems, slices.DeleteFunc(preview.ProblemsOf(nil, o.After), isUnready)...)
		}
	}
	return in
}

// isUnready says whether a problem is only that an object is not ready: it is what a simulation has to wait
// for.
func isUnready(p preview.Problem) bool { return p.Reason == string(plan.NotReady) }

// Render renders the instances and operations of files without an API server. Other objects of the files are the observed
// state of objects that the instances consist of, if they have the same kind and name, or else exist
// besides them.
func Render(ctx context.Context, o server.ManagerOptions, files []Applied, namespace string, timeout time.Duration) ([]preview.Rendered,
	[]preview.Problem, error) {
	var rendered []preview.Rendered
	var problems []preview.Problem
	var r rendering
	var err error
	if r.operations, files, err = withoutOperations(files); err != nil {
		return nil, nil, err
	}
	if len(r.operations) > 0 {
		o.Operations = &server.OperationOptions{Namespace: server.DefaultSigningKeyNamespace, OneUser: true}
	}
	err = RunOffline(ctx, o, namespace, timeout, func(ctx context.Context, c *Offline) (bool, error) {
		if !c.Settled() {
			return false, errors.New("the controllers were still busy when the time was over; raise --wait")
		}
		if again, err := r.next(ctx, c, files); again || err != nil {
			return again, err
		}
		in := c.State()
		rendered, problems = preview.Render(in), in.Problems
		return false, nil
	})
	return rendered, problems, err
}

// rendering gives the objects of files to a cluster.
type rendering struct {
	begun bool
	// pending are objects that an instance may consist of, and has not created so far. Besides are those of them that
	// were applied because nothing consisted of them then.
	pending, besides []Applied
	// operations are applied after all other objects, which they may read.
	operations []Applied
}

// next applies or observes objects; false if there is none left.
func (r *rendering) next(ctx context.Context, c *Offline, files []Applied) (again bool, err error) {
	if !r.begun {
		r.begun = true
		var first []Applied
		for _, f := range files {
			if c.isComposable(f.Object, files) {
				r.pending = append(r.pending, f)
			} else {
				first = append(first, f)
			}
		}
		return true, c.Apply(ctx, first...)
	}
	if again, err = r.retract(ctx, c); again || err != nil {
		return again, err
	}
	var rest []Applied
	for _, f := range r.pending {
		exists, err := c.Observe(ctx, f.Object)
		if err != nil {
			return false, err
		}
		if again = again || exists; !exists {
			rest = append(rest, f)
		}
	}
	r.pending = rest
	if !again && len(rest) == 0 && len(r.operations) > 0 {
		last := r.operations
		r.operations = nil
		return true, c.Apply(ctx, last...)
	}
	if again || len(rest) == 0 {
		return again, nil
	}
	// An object that cannot be created, such as a Deployment with a status only, is the observed state of one that an instance does not
	// consist of yet. The rest of them is applied at last, and refused.
	complete := slices.DeleteFunc(slices.Clone(rest), func(f Applied) bool { return c.refuses(ctx, f.Object) })
	if len(complete) == 0 {
		complete = slices.Clone(rest)
	}
	r.pending = slices.DeleteFunc(rest, func(f Applied) bool { return slices.Contains(complete, f) })
	r.besides = append(r.besides, complete...)
	return true, c.Apply(ctx, complete...)
}

// refuses reports whether an object cannot be created as it is in a file.
func (c *Offline) refuses(ctx context.Context, o *unstructured.Unstructured) bool {
	of, err := c.resource(ctx, o)
	if err != nil {
		return false // its kind is not served: that is a problem of its own
	}
	if ns := o.GetNamespace(); ns != "" {
		err = c.createNamespace(ctx, ns)
	}
	if err == nil {
		_, err = of.Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	return err != nil
}

// retract deletes objects that were applied because no instance consisted of them, and that one wants to create now: it had waited for
// another one of them, such as for what an externalRef names. They are observed once the instance has created them.
func (r *rendering) retract(ctx context.Context, c *Offline) (again bool, err error) {
	wanted := c.foreign()
	var rest []Applied
	for _, f := range r.besides {
		if !wanted(f.Object) {
			rest = append(rest, f)
			continue
		}
		if _, err := c.Delete(ctx, f.Object); err != nil {
			return false, err
		}
		r.pending, again = append(r.pending, f), true
	}
	r.besides = rest
	return again, nil
}

// foreign returns whether an object keeps an instance from creating one of the same name.
func (c *Offline) foreign() func(*unstructured.Unstructured) bool {
	var problems []plan.Problem
	for _, decided := range c.decisions.last() {
		for _, step := range decided.Steps {
			problems = append(problems, step.Problem)
		}
	}
	return func(o *unstructured.Unstructured) bool {
		key := object.KeyOf(o)
		return slices.ContainsFunc(problems, func(p plan.Problem) bool { return p.IsNotOwned(key) })
	}
}

// isComposable says whether an object may be one that an instance consists of: it neither defines a kind nor
// is of a kind that the files define.
func (c *Offline) isComposable(o *unstructured.Unstructured, files []Applied) bool {
	if IsDefinition(o) {
		return false
	}
	gvk := o.GroupVersionKind()
	return !slices.ContainsFunc(files, func(f Applied) bool { return Defines(f.Object, gvk.GroupKind()) })
}
