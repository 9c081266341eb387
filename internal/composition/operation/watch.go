package operation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensionsv1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation/plan"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// WatchOperations reconciles WatchOperations.
type WatchOperations struct {
	Config

	mu sync.Mutex
	// known are the objects that exist, by WatchOperation: one that is missing later was deleted.
	known map[object.Key]knownObjects
}

// knownObjects are what a selector selects, and where they are watched.
type knownObjects struct {
	hub      *watch.Hub
	selector string
	objects  []plan.Object
	// handled is what the status had. Without this, a CustomResourceDefinition of Crossplane, which has no such field, would have all
	// objects due again and again.
	handled *opsv1alpha1.HandledChanges
}

// Watched selects objects of a kind; an empty namespace stands for all.
type Watched struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Selector  labels.Selector
}

// WatchedBy is what a WatchOperation watches.
func WatchedBy(o *unstructured.Unstructured) (Watched, error) {
	op, err := decode[opsv1alpha1.WatchOperation](o)
	if err != nil {
		return Watched{}, err
	}
	return watchedBy(op.Spec.Watch), nil
}

func watchedBy(s opsv1alpha1.WatchSpec) Watched {
	return Watched{schema.FromAPIVersionAndKind(s.APIVersion, s.Kind), s.Namespace, labels.SelectorFromSet(s.MatchLabels)}
}

// watching is one reconcile of a WatchOperation.
type watching struct {
	generator
	operation *opsv1alpha1.WatchOperation
	account   Account
	watched   Watched
	selector  string
	objects   []plan.Object
}

// Reconcile makes the operations that are due, and deletes those that are too many. The objects, and the operations, wake it.
func (r *WatchOperations) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	raw, ok := r.Hub.GetCached(WatchKind, "", key.Name)
	subscriber := watch.Subscriber{Key: key}
	if !ok || raw.GetDeletionTimestamp() != nil { // the garbage collector deletes its operations
		r.forget(key)
		r.Hub.Forget(subscriber)
		if !ok {
			return reconcile.Done()
		}
		return r.writer().RemoveFinalizers(ctx, &writer.Object{Unstructured: raw}, opsv1alpha1.WatchOperationFinalizer).OrDone() // Crossplane has added it
	}
	op, err := decode[opsv1alpha1.WatchOperation](raw)
	if err != nil {
		return reconcile.Fail(err)
	}
	s := &watching{operation: op, watched: watchedBy(op.Spec.Watch), selector: object.Digest(op.Spec.Watch)}
	s.generator = generator{Config: r.Config, key: key, object: &writer.Object{Unstructured: raw}, label: opsv1alpha1.WatchOperationLabel,
		settings: &op.Spec.OperationSettings, lease: r.Hub.Begin(subscriber)}
	defer s.lease.Commit()
	pause := mark(opsv1alpha1.TypeWatching, condition.False, opsv1alpha1.ReasonWatchPaused, "the annotation "+PausedAnnotation+" is true")
	if out, waits := r.suspended(ctx, s.object, &op.Status, pause); waits {
		return out
	}
	if s.account, err = r.accountOf(op.Spec.OperationTemplate.Spec); err != nil {
		return s.failed(ctx, err.Error())
	}
	state, ends := r.observe(s)
	defer ends()
	switch {
	case state.Phase == watch.Unavailable:
		return s.failed(ctx, state.Message)
	case state.Phase != watch.Synced || !s.readOperations():
		return reconcile.Done()
	}
	if err := r.noteDeleted(ctx, s); err != nil {
		return reconcile.Fail(err)
	}
	waits, err := s.makeDue(ctx)
	s.describe(&op.Status.OperationsStatus)
	if err == nil {
		err = s.collect(ctx)
	}
	out, written := s.end(ctx, &op.Status, err, mark(opsv1alpha1.TypeWatching, condition.True, opsv1alpha1.ReasonWatchActive, waits))
	if written { // what was deleted is in the status
		r.remember(s, s.objects)
	}
	return out
}

// failed reports that the objects cannot be watched. A change of that wakes the WatchOperation.
func (s *watching) failed(ctx context.Context, why string) reconcile.Result {
	out, _ := s.end(ctx, &s.operation.Status, nil, mark(opsv1alpha1.TypeWatching, condition.False, opsv1alpha1.ReasonWatchFailed, why))
	return out
}

// observe reads the objects, with the permissions of the account.
func (r *WatchOperations) observe(s *watching) (state watch.State, ends func()) {
	if former := r.recall(s.key); former.hub != s.account.Hub {
		r.forget(s.key)
		if former.selector == s.selector {
			r.remember(s, former.objects)
		}
	}
	lease, ends := s.lease, func() {}
	if s.account.Hub != s.Hub {
		lease = s.account.Hub.Begin(watch.Subscriber{Key: s.key})
		ends = lease.Commit
	}
	all, state := lease.Matching(s.watched.Kind, s.watched.Namespace, s.watched.Selector)
	for _, o := range all {
		s.objects = append(s.objects, plan.Object{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(),
		})
	}
	s.operation.Status.WatchingResources = int64(len(all))
	return state, ends
}

// noteDeleted adds the objects that have been deleted since the last reconcile to those that wait for an operation. One that the selector
// no longer selects is not deleted.
func (r *WatchOperations) noteDeleted(ctx context.Context, s *watching) error {
	status, known := &s.operation.Status, r.recall(s.key)
	if known.selector != s.selector {
		known = knownObjects{}
	}
	if status.Handled == nil && known.handled != nil {
		status.Handled = known.handled.DeepCopy()
	}
	if status.Handled == nil || status.Handled.Selector != s.selector {
		status.Handled = &opsv1alpha1.HandledChanges{Selector: s.selector}
	}
	exist := map[string]bool{}
	for _, o := range s.objects {
		exist[o.UID] = true
	}
	for _, o := range known.objects {
		pending := slices.ContainsFunc(status.Handled.Deletions, func(d opsv1alpha1.DeletedObject) bool { return d.UID == o.UID })
		if exist[o.UID] || pending {
			continue
		}
		live, err := s.account.Cluster.Get(ctx, s.watched.Kind, o.Namespace, o.Name)
		if err != nil && !kube.IsObjectNotFound(err, o.Name) {
			return fmt.Errorf("read %s %s: %w", s.watched.Kind.Kind, o.Name, err)
		}
		if err != nil || string(live.GetUID()) != o.UID {
			status.Handled.Deletions = append(status.Handled.Deletions, opsv1alpha1.DeletedObject{Namespace: o.Namespace, Name: o.Name, UID: o.UID})
		}
	}
	return nil
}

func (r *WatchOperations) recall(key object.Key) knownObjects {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[key]
}

func (r *WatchOperations) remember(s *watching, objects []plan.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[object.Key]knownObjects{}
	}
	r.known[s.key] = knownObjects{s.account.Hub, s.selector, objects, s.operation.Status.Handled.DeepCopy()}
}

// forget ends the watches of another account.
func (r *WatchOperations) forget(key object.Key) {
	former := r.recall(key)
	if former.hub != nil && former.hub != r.Hub {
		former.hub.Forget(watch.Subscriber{Key: key})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, key)
}

// makeDue makes the operations that are due, and returns why others wait.
func (s *watching) makeDue(ctx context.Context) (waits string, err error) {
	handled := s.operation.Status.Handled
	facts := plan.Watch{Name: s.key.Name, Kind: s.watched.Kind, Handled: plan.Revision(handled.ResourceVersion), Objects: s.objects,
		Policy: s.settings.ConcurrencyPolicy, Operations: s.operations}
	for _, d := range handled.Deletions {
		facts.Deleted = append(facts.Deleted, plan.Object{
			Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: opsv1alpha1.DeletedResourceVersion,
		})
	}
	changes, waiting := facts.Next()
	if waiting > 0 {
		waits = diag.Counted(waiting, "change waits", "changes wait") + " for running operations"
	}
	for _, c := range changes {
		if err := s.delete(ctx, "replaced by the next one for its object", c.Replaced...); err != nil {
			return waits, err
		}
		o, err := WatchedOperation(s.object.Unstructured, s.watched.Kind, c)
		if err != nil {
			return waits, err
		}
		if s.generator.objects[c.Operation] == nil {
			if err := s.create(ctx, o); err != nil {
				return waits, err
			}
			s.operation.Status.LastScheduleTime = timeOf(s.Now())
		}
		if c.ResourceVersion == opsv1alpha1.DeletedResourceVersion {
			handled.Deletions = slices.DeleteFunc(handled.Deletions, func(d opsv1alpha1.DeletedObject) bool { return d.UID == c.UID })
		} else {
			handled.ResourceVersion = strconv.FormatUint(plan.Revision(c.ResourceVersion), 10)
		}
	}
	return waits, nil
}

// WatchedOperation is the operation that a WatchOperation makes for a change. Each step gets the object, or what stands for a deleted one.
func WatchedOperation(owner *unstructured.Unstructured, kind schema.GroupVersionKind, c plan.Change) (*unstructured.Unstructured, error) {
	op, err := decode[opsv1alpha1.WatchOperation](owner)
	if err != nil {
		return nil, err
	}
	watched := apiextensionsv1.RequiredResource{RequirementName: opsv1alpha1.WatchedRequirement, APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Name: &c.Name}
	if c.Namespace != "" {
		watched.Namespace = &c.Namespace
	}
	template := op.Spec.OperationTemplate
	for i := range template.Spec.Pipeline {
		step := &template.Spec.Pipeline[i]
		if step.Requirements == nil {
			step.Requirements = &apiextensionsv1.FunctionRequirements{}
		}
		step.Requirements.RequiredResources = append(slices.DeleteFunc(step.Requirements.RequiredResources, func(r apiextensionsv1.RequiredResource) bool {
			return r.RequirementName == opsv1alpha1.WatchedRequirement
		}), watched)
	}
	o, err := newOperation(owner, template, c.Operation, opsv1alpha1.WatchOperationLabel)
	if err != nil {
		return nil, err
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range map[string]string{
		opsv1alpha1.WatchedAPIVersionAnnotation: watched.APIVersion, opsv1alpha1.WatchedKindAnnotation: watched.Kind,
		opsv1alpha1.WatchedNameAnnotation: c.Name, opsv1alpha1.WatchedNamespaceAnnotation: c.Namespace,
		opsv1alpha1.WatchedResourceVersionAnnotation: c.ResourceVersion,
	} {
		annotations[key] = value
	}
	o.SetAnnotations(annotations)
	return o, nil
}
