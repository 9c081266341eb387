// Package migrate runs takeovers on a cluster: it simulates the controllers for a plan, and
// gives objects back to the engine that they were taken over from. Package takeover decides what
// to write, and reports it.
// See docs/design/0016-the-controllers-without-effect.md and 0020-beside-other-engines.md.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/migration/takeover"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// ReleaseOptions configure a release.
type ReleaseOptions struct {
	Config *rest.Config
	// Engine is the engine that the objects are given back to.
	Engine managedfields.Engine
	// DryRun sends all writes as dry runs.
	DryRun bool
	// Lease is the name of the lease that the controllers hold while they run.
	Lease string
	Now   func() time.Time
	// Each is called for each object, with its state before and after.
	Each func(preview.Object)
}

// RunningError is returned while the controllers run, since they would take the objects over again.
type RunningError struct{ Holder, Lease string }

func (r *RunningError) Error() string {
	return fmt.Sprintf("the controllers run: %s holds Lease %s. Stop them first: they would take the objects over again", r.Holder, r.Lease)
}

// releaser is one call of Release.
type releaser struct {
	ReleaseOptions
	client dynamic.Interface
	kinds  map[schema.GroupKind]resource
	// replaced are the engine's own CustomResourceDefinitions that Espalier has replaced.
	replaced []*unstructured.Unstructured
	done     map[types.UID]bool
	// graphs are the managers with which kro applies the objects of Graphs, by the ids of their ApplySets.
	graphs map[string]string
	// discover returns a mapper for kinds without a CustomResourceDefinition; discovered is
	// that mapper, nil until it is needed.
	discover   func() (mapper, error)
	discovered mapper
}

// mapper finds how kinds are served; a meta.RESTMapper implements it.
type mapper interface {
	RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
}

// resource is how a kind is served.
type resource struct {
	gvr schema.GroupVersionResource
}

// Release gives the objects of a dialect back to the engine that they were taken over from,
// with one write per object, and one of the status of instances and definitions. Children go before their instances, which list them, so Release
// can be interrupted at any time and run again. It returns a RunningError while the
// controllers run. Objects that are deleted meanwhile are skipped. Graphs without a kind go before their children, which the
// status of each lists then.
func Release(ctx context.Context, o ReleaseOptions) error {
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	return newReleaser(o, client, func() (mapper, error) { return discover(o.Config) }).run(ctx)
}

func newReleaser(o ReleaseOptions, client dynamic.Interface, discover func() (mapper, error)) *releaser {
	return &releaser{ReleaseOptions: o, client: client, discover: discover, done: map[types.UID]bool{}, graphs: map[string]string{}}
}

// discover reads all kinds that the API server serves.
func discover(config *rest.Config) (mapper, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	return restmapper.NewDiscoveryRESTMapper(groups), nil
}

func (r *releaser) run(ctx context.Context) error {
	if err := r.refuseWhileRunning(ctx); err != nil {
		return err
	}
	crds, err := r.served(ctx)
	if err != nil {
		return err
	}
	var instances, others []unstructured.Unstructured
	for _, c := range crds {
		found, err := r.list(ctx, crd.GroupKind(c), "")
		if err != nil {
			return err
		}
		instances = append(instances, found...)
	}
	if r.Engine == managedfields.KRO {
		graphs, err := r.list(ctx, v1alpha1.GroupVersion.WithKind(v1alpha1.GraphKind).GroupKind(), "")
		if err != nil {
			return err
		}
		for i := range graphs {
			r.graphs[inventory.ApplySetID(object.KeyOf(&graphs[i]))] = inventory.GraphManagerOf(graphs[i].GetUID())
		}
		instances = append(instances, graphs...)
	}
	for _, gk := range r.definitions() {
		found, err := r.list(ctx, gk, "")
		if err != nil {
			return err
		}
		others = append(others, found...)
	}
	for _, c := range crds {
		found, err := r.client.Resource(crdResource).Get(ctx, c.Name, metav1.GetOptions{})
		if kube.IsObjectNotFound(err, c.Name) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", c.Name, err)
		}
		others = append(others, *found)
	}
	children, err := r.children(ctx, instances)
	if err != nil {
		return err
	}
	if err := r.releaseGraphs(ctx, instances, children); err != nil {
		return err
	}
	for i := range children {
		isOwn := slices.Contains(r.definitions(), children[i].GroupVersionKind().GroupKind()) // such as a Usage
		if err := r.release(ctx, &children[i], isOwn); err != nil {
			return err
		}
	}
	for _, all := range [][]unstructured.Unstructured{instances, others} {
		for i := range all {
			if err := r.release(ctx, &all[i], all[i].GroupVersionKind() != crd.Kind); err != nil {
				return err
			}
		}
	}
	for _, o := range r.replaced { // last: before, their objects may have fields that only Espalier's have
		if err := r.restore(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

var (
	crdResource   = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	leaseResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// refuseWhileRunning returns a RunningError if the controllers' lease is held.
func (r *releaser) refuseWhileRunning(ctx context.Context) error {
	list, err := r.client.Resource(leaseResource).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Lease})
	if err != nil {
		return fmt.Errorf("check whether the controllers run: list Leases: %w", err)
	}
	for _, lease := range list.Items {
		holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
		renewed, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
		seconds, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseDurationSeconds")
		at, err := time.Parse(time.RFC3339, renewed)
		if holder != "" && err == nil && at.Add(time.Duration(seconds)*time.Second).After(r.Now()) {
			return &RunningError{Holder: holder, Lease: lease.GetNamespace() + "/" + lease.GetName()}
		}
	}
	return nil
}

// served returns the CustomResourceDefinitions that a definition of the engine controls, and
// records how all kinds are served.
func (r *releaser) served(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	list, err := r.client.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	r.kinds = map[schema.GroupKind]resource{}
	var out []*apiextensionsv1.CustomResourceDefinition
	for i := range list.Items {
		c, err := crd.Decode(&list.Items[i])
		if err != nil {
			return nil, err
		}
		for _, v := range c.Spec.Versions {
			if _, known := r.kinds[crd.GroupKind(c)]; v.Served && (!known || v.Storage) {
				gvr := schema.GroupVersionResource{Group: c.Spec.Group, Version: v.Name, Resource: c.Spec.Names.Plural}
				r.kinds[crd.GroupKind(c)] = resource{gvr}
			}
		}
		if r.serves(c) {
			out = append(out, c)
		}
		if _, replaced, err := install.Former(&list.Items[i]); err != nil {
			return nil, err
		} else if replaced && r.Engine == managedfields.KRO {
			r.replaced = append(r.replaced, &list.Items[i])
		}
	}
	return out, nil
}

// serves reports whether the engine serves a kind.
func (r *releaser) serves(c *apiextensionsv1.CustomResourceDefinition) bool {
	if r.Engine == managedfields.KRO {
		return c.Labels[v1alpha1.OwnedLabel] != ""
	}
	ref := metav1.GetControllerOfNoCopy(c)
	return ref != nil && ref.Kind == "CompositeResourceDefinition"
}

// definitions are the kinds of the engine's own API.
func (r *releaser) definitions() []schema.GroupKind {
	if r.Engine == managedfields.KRO {
		return []schema.GroupKind{
			{Group: "internal.kro.run", Kind: "GraphRevision"}, {Group: "kro.run", Kind: "ResourceGroup"}, {Group: "kro.run", Kind: "ResourceGraphDefinition"},
		}
	}
	const extensions, usages = "apiextensions.crossplane.io", "protection.crossplane.io"
	return []schema.GroupKind{
		{Group: extensions, Kind: "CompositionRevision"}, {Group: extensions, Kind: "Composition"},
		{Group: usages, Kind: "Usage"}, {Group: usages, Kind: "ClusterUsage"}, {Group: extensions, Kind: "Usage"},
		{Group: "pkg.crossplane.io", Kind: "Function"}, {Group: "pkg.crossplane.io", Kind: "FunctionRevision"},
		{Group: extensions, Kind: "CompositeResourceDefinition"},
	}
}

// releaseGraphs releases Graphs. One that is a child of another goes after it.
func (r *releaser) releaseGraphs(ctx context.Context, instances, children []unstructured.Unstructured) error {
	of, left := map[string][]unstructured.Unstructured{}, map[string]*unstructured.Unstructured{} // by ApplySet
	for i, o := range slices.Concat(instances, children) {
		set := o.GetLabels()[v1alpha1.ApplySetPartOfLabel]
		of[set] = append(of[set], o)
		if id := inventory.ApplySetID(object.KeyOf(&o)); i < len(instances) && r.graphs[id] != "" {
			left[id] = &instances[i]
		}
	}
	var release func(id string) error
	release = func(id string) error {
		o := left[id]
		if o == nil {
			return nil
		}
		delete(left, id)
		if err := release(o.GetLabels()[v1alpha1.ApplySetPartOfLabel]); err != nil {
			return err
		}
		return r.releaseGraph(ctx, o, of[id])
	}
	for i := range instances {
		if err := release(inventory.ApplySetID(object.KeyOf(&instances[i]))); err != nil {
			return err
		}
	}
	return nil
}

// releaseGraph completes the record of a Graph, by which kro knows its children, and releases the Graph. Without an inventory
// it is taken over from that record, should Espalier start before all children are released.
func (r *releaser) releaseGraph(ctx context.Context, o *unstructured.Unstructured, children []unstructured.Unstructured) error {
	at, options, err := r.access(o)
	if err != nil {
		return err
	}
	recorded, err := r.releaseStatus(ctx, at, o, options, func(o *unstructured.Unstructured) ([]byte, error) { return takeover.RecordPatch(o, children) })
	if err != nil || recorded == nil {
		return err
	}
	if !r.DryRun {
		o = recorded
	}
	return r.release(ctx, o, true)
}

// access returns how an object is written.
func (r *releaser) access(o *unstructured.Unstructured) (at dynamic.ResourceInterface, options metav1.PatchOptions, err error) {
	of, err := r.resource(o.GroupVersionKind().GroupKind())
	if err != nil {
		return nil, options, err
	}
	options.FieldManager = r.Engine.Manager()
	if r.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if o.GetNamespace() != "" {
		return r.client.Resource(of.gvr).Namespace(o.GetNamespace()), options, nil
	}
	return r.client.Resource(of.gvr), options, nil
}

// children returns the children of instances that are no instances themselves.
func (r *releaser) children(ctx context.Context, instances []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	isInstance, ids, kinds := map[types.UID]bool{}, map[string]bool{}, map[schema.GroupKind]bool{}
	for i := range instances {
		o := &instances[i]
		isInstance[o.GetUID()] = true
		ids[inventory.ApplySetID(object.KeyOf(o))] = true
		for _, gk := range inventory.Read(o).GroupKinds() {
			kinds[gk] = true
		}
		if inventory.IsGraph(o) {
			for _, m := range report.ReadManaged(o) {
				kinds[schema.FromAPIVersionAndKind(m.APIVersion, m.Kind).GroupKind()] = true
			}
		}
	}
	var out []unstructured.Unstructured
	for gk := range kinds {
		found, err := r.list(ctx, gk, v1alpha1.ApplySetPartOfLabel)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if ids[o.GetLabels()[v1alpha1.ApplySetPartOfLabel]] && !isInstance[o.GetUID()] {
				out = append(out, o)
			}
		}
	}
	slices.SortFunc(out, func(a, b unstructured.Unstructured) int { return object.KeyOf(&a).Compare(object.KeyOf(&b)) })
	return out, nil
}

// list returns the objects of a kind; none if the kind is not served.
func (r *releaser) list(ctx context.Context, gk schema.GroupKind, selector string) ([]unstructured.Unstructured, error) {
	of, err := r.resource(gk)
	if err != nil || of.gvr.Empty() {
		return nil, err
	}
	list, err := r.client.Resource(of.gvr).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", of.gvr.GroupResource(), err)
	}
	return list.Items, nil
}

// release writes an object as the engine needs it. After a conflict, the object is read again.
// An object that was deleted since it was listed is skipped. WithStatus says that its status is Espalier's.
func (r *releaser) release(ctx context.Context, o *unstructured.Unstructured, withStatus bool) error {
	if r.done[o.GetUID()] {
		return nil
	}
	r.done[o.GetUID()] = true
	at, options, err := r.access(o)
	if err != nil {
		return err
	}
	before := o
	if withStatus {
		if o, err = r.releaseStatus(ctx, at, o, options, takeover.StatusPatch); err != nil || o == nil {
			return err
		}
	}
	cleaned := o
	for range attempts {
		next, changed := takeover.Released(o, r.Engine, r.graphs[o.GetLabels()[v1alpha1.ApplySetPartOfLabel]])
		if !changed {
			r.Each(preview.Object{Before: before, After: o})
			return nil
		}
		body, err := takeover.Patch(o, next)
		if err != nil {
			return fmt.Errorf("encode a patch of %s: %w", object.KeyOf(o), err)
		}
		answer, err := at.Patch(ctx, o.GetName(), types.JSONPatchType, body, options)
		if err == nil {
			if r.DryRun && cleaned != before {
				answer.Object["status"] = cleaned.Object["status"]
			}
			r.Each(preview.Object{Before: before, After: answer})
			return nil
		}
		if o, err = afterConflict(ctx, at, o, err); err != nil || o == nil {
			return err
		}
		before, cleaned = o, o
	}
	return fmt.Errorf("give back %s: %w", object.KeyOf(o), errBusy)
}

// restore gives back a CustomResourceDefinition of the engine's own that Espalier has replaced. The patch is made by the
// manager that had written it, which then owns what the patch changes.
func (r *releaser) restore(ctx context.Context, o *unstructured.Unstructured) error {
	for range attempts {
		former, replaced, err := install.Former(o)
		if err != nil || !replaced {
			return err
		}
		options := metav1.PatchOptions{FieldManager: r.Engine.Manager()}
		if r.DryRun {
			options.DryRun = []string{metav1.DryRunAll}
		}
		for _, e := range former.GetManagedFields() {
			if e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" {
				options.FieldManager = e.Manager
			}
		}
		body, err := takeover.Patch(o, former)
		if err != nil {
			return fmt.Errorf("encode a patch of %s: %w", object.KeyOf(o), err)
		}
		answer, err := r.client.Resource(crdResource).Patch(ctx, o.GetName(), types.JSONPatchType, body, options)
		if err == nil {
			r.Each(preview.Object{Before: o, After: answer})
			return nil
		}
		if o, err = afterConflict(ctx, r.client.Resource(crdResource), o, err); err != nil || o == nil {
			return err
		}
	}
	return fmt.Errorf("give back %s: %w", object.KeyOf(o), errBusy)
}

// releaseStatus patches the status, unless the patch is nil, and returns the object after that; nil if it is gone.
func (r *releaser) releaseStatus(ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured,
	options metav1.PatchOptions, patch func(*unstructured.Unstructured) ([]byte, error)) (*unstructured.Unstructured, error) {
	for range attempts {
		body, err := patch(o)
		if err != nil {
			return nil, fmt.Errorf("give back the status of %s: %w", object.KeyOf(o), err)
		}
		if body == nil {
			return o, nil
		}
		answer, err := at.Patch(ctx, o.GetName(), types.JSONPatchType, body, options, "status")
		if err == nil {
			return answer, nil
		}
		if o, err = afterConflict(ctx, at, o, err); err != nil || o == nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("give back %s: %w", object.KeyOf(o), errBusy)
}

// afterConflict reads an object again that another client has changed; nil if it is gone. Any other error is returned.
func afterConflict(ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if kube.IsObjectNotFound(err, o.GetName()) {
		return nil, nil
	}
	if !apierrors.IsConflict(err) {
		return nil, fmt.Errorf("give back %s: %w", object.KeyOf(o), err)
	}
	switch live, err := at.Get(ctx, o.GetName(), metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", object.KeyOf(o), err)
	case live.GetUID() != o.GetUID():
		return nil, nil
	default:
		return live, nil
	}
}

// attempts is how often an object is written if other clients change it at the same time.
const attempts = 10

var errBusy = errors.New("another client keeps changing the object; stop it, and run the command again")

// resource returns how a kind is served; empty if it is not.
func (r *releaser) resource(gk schema.GroupKind) (resource, error) {
	if known, ok := r.kinds[gk]; ok {
		return known, nil
	}
	if r.discovered == nil {
		found, err := r.discover()
		if err != nil {
			return resource{}, err
		}
		r.discovered = found
	}
	mapping, err := r.discovered.RESTMapping(gk)
	if meta.IsNoMatchError(err) {
		return resource{}, nil
	}
	if err != nil {
		return resource{}, fmt.Errorf("look up %s: %w", gk, err)
	}
	r.kinds[gk] = resource{mapping.Resource}
	return r.kinds[gk], nil
}
