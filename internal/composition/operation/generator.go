package operation

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Reasons of events.
const (
	eventCreated = "CreateOperation"
	eventDeleted = "DeleteOperation"
)

// generator is the reconcile of a CronOperation or a WatchOperation, as far as they are alike.
type generator struct {
	Config
	key      object.Key
	object   *writer.Object
	label    string
	settings *opsv1alpha1.OperationSettings
	lease    *watch.Lease
	// objects are the operations that exist, by name; operations is what the decisions need of them.
	objects    map[string]*unstructured.Unstructured
	operations []plan.Operation
}

// readOperations returns false until they are known: the lease enqueues the object.
func (g *generator) readOperations() (known bool) {
	all, state := g.lease.Matching(Kind, "", labels.SelectorFromSet(labels.Set{g.label: g.key.Name}))
	if state.Phase != watch.Synced {
		return false
	}
	g.objects, g.operations = map[string]*unstructured.Unstructured{}, nil
	for _, o := range all {
		if metav1.IsControlledBy(o, g.object) {
			g.objects[o.GetName()] = o
			g.operations = append(g.operations, plan.Read(o))
		}
	}
	return true
}

// create makes an operation. One that exists already is the answer to an earlier reconcile.
func (g *generator) create(ctx context.Context, o *unstructured.Unstructured) error {
	answer, err := g.Cluster.Create(ctx, o, Manager)
	if existing := kube.ExistingObject(err); existing != nil {
		if !metav1.IsControlledBy(existing, g.object) {
			return fmt.Errorf("there is another Operation %s: rename or delete it", o.GetName())
		}
		answer, err = existing, nil
	} else if err == nil {
		g.Events.Event(g.object.Unstructured, telemetry.Normal, eventCreated, "created Operation "+o.GetName())
	}
	if err != nil {
		return fmt.Errorf("create Operation %s: %w", o.GetName(), kube.Redacted(err))
	}
	g.Hub.Record(answer, watch.Subscriber{Key: g.key}) // the next decision has to know of it
	g.objects[answer.GetName()] = answer
	g.operations = append(g.operations, plan.Read(answer))
	return nil
}

// delete deletes operations, and forgets them.
func (g *generator) delete(ctx context.Context, why string, names ...string) error {
	for _, name := range names {
		if err := g.Cluster.Delete(ctx, g.objects[name]); err != nil {
			return fmt.Errorf("delete Operation %s: %w", name, err)
		}
		g.Events.Event(g.object.Unstructured, telemetry.Normal, eventDeleted, "deleted Operation "+name+": "+why)
		delete(g.objects, name)
		var rest []plan.Operation
		for _, o := range g.operations {
			if o.Name != name {
				rest = append(rest, o)
			}
		}
		g.operations = rest
	}
	return nil
}

// collect deletes the operations beyond the limits of the history.
func (g *generator) collect(ctx context.Context) error {
	limit := func(of *int32, standard int) int {
		if of == nil {
			return standard
		}
		return int(*of)
	}
	expired := plan.Expired(g.operations, limit(g.settings.SuccessfulHistoryLimit, 3), limit(g.settings.FailedHistoryLimit, 1))
	return g.delete(ctx, "beyond the limit of the history", expired...)
}

// describe sets what the statuses have in common, from the operations before the history is collected.
func (g *generator) describe(status *opsv1alpha1.OperationsStatus) {
	status.RunningOperationRefs = nil
	for _, name := range plan.Running(g.operations) {
		status.RunningOperationRefs = append(status.RunningOperationRefs, opsv1alpha1.RunningOperationRef{Name: name})
	}
	if last := plan.LastSuccess(g.operations); status.LastSuccessfulTime == nil || last.After(status.LastSuccessfulTime.Time) {
		status.LastSuccessfulTime = timeOf(last)
	}
}

// timeOf is nil for no time. Statuses have whole seconds.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second).UTC()}
}

// end writes the result of a reconcile.
func (g *generator) end(ctx context.Context, status any, err error, c v1alpha1.Condition) (out reconcile.Result, written bool) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	out = g.writeStatus(ctx, g.object, status, c, synced(problem))
	if written = !out.IsFinal(); err != nil && out.Err == nil {
		return reconcile.Fail(err), written
	}
	return out.OrDone(), written
}

// newOperation makes an operation from a template.
func newOperation(owner *unstructured.Unstructured, template opsv1alpha1.OperationTemplate, name, label string) (*unstructured.Unstructured, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode the template: %w", err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(Kind)
	o.SetName(name)
	all := map[string]string{}
	maps.Copy(all, template.Metadata.Labels)
	all[label] = owner.GetName()
	o.SetLabels(all)
	if len(template.Metadata.Annotations) > 0 {
		o.SetAnnotations(template.Metadata.Annotations)
	}
	if owner.GetUID() != "" { // files have none
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	return o, nil
}
