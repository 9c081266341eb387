package controller

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/activation"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/demand"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// ManagedKind and PolicyKind are the kinds of definitions of managed resources, and of the policies that activate them.
var (
	ManagedKind = apiextensions.GroupVersion.WithKind(apiextensions.ManagedResourceDefinitionKind)
	PolicyKind  = apiextensions.GroupVersion.WithKind(apiextensions.ManagedResourceActivationPolicyKind)
)

// ActivationKey is the key that all policies are reconciled under, because several may name the same definition. It is no valid
// name, so no object has it.
var ActivationKey = object.Key{Group: PolicyKind.Group, Kind: PolicyKind.Kind, Name: "*"}

// Activations activates the definitions of managed resources that policies name, or that other definitions compose.
type Activations struct {
	Config
	// Definitions may compose managed resources.
	Definitions demand.Definitions
	// Default is what the first policy of a cluster activates; without any, there is none until a user makes one.
	Default []string

	hasDefault bool
}

// defaultPolicy is the name of the first policy, as in Crossplane.
const defaultPolicy = "default"

// Reconcile activates one definition after the other. Each change of a policy or of a definition brings the next one.
func (r *Activations) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if key != ActivationKey {
		r.Enqueue(ActivationKey)
		return reconcile.Done()
	}
	lease := r.Hub.Begin(watch.Subscriber{Key: key})
	defer lease.Commit()
	if r.Crossplane != nil && r.Crossplane.IsRunning(ctx) {
		return reconcile.RequeueAfter(crossplaneInterval)
	}
	policies, state := lease.Matching(PolicyKind, "", labels.Everything())
	managed, of := lease.Matching(ManagedKind, "", labels.Everything())
	if state.Phase != watch.Synced || of.Phase != watch.Synced {
		return reconcile.Done()
	}
	if err := r.createDefault(ctx, policies, managed); err != nil {
		return serving.ResultOf(err)
	}
	composed := r.Definitions.Read(lease) // what cannot be read activates nothing
	plan, byName := planActivation(policies, managed, composed.Kinds)
	for _, name := range plan.Activate {
		change := map[string]any{"spec": map[string]any{"state": string(apiextensions.ManagedResourceActive)}}
		if _, err := r.Cluster.Patch(ctx, byName[name], change, Manager); err != nil {
			return serving.ResultOf(err)
		}
	}
	last := reconcile.Done()
	for _, o := range policies {
		if out := r.report(ctx, &writer.Object{Unstructured: o}, plan.Statuses[o.GetName()]); out.IsFinal() {
			last = out // the others do not depend on it
		}
	}
	return last
}

// createDefault creates the first policy of a cluster with definitions. It looks once, since nobody who deletes the last policy
// expects that all definitions become active.
func (r *Activations) createDefault(ctx context.Context, policies, managed []*unstructured.Unstructured) error {
	if r.hasDefault || len(managed) == 0 {
		return nil
	}
	if len(policies) > 0 || len(r.Default) == 0 {
		r.hasDefault = true
		return nil
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(PolicyKind)
	o.SetName(defaultPolicy)
	if err := unstructured.SetNestedStringSlice(o.Object, r.Default, "spec", "activate"); err != nil {
		return err
	}
	if _, err := r.Cluster.Create(ctx, o, Manager); err != nil && !kube.IsNameTaken(err) {
		return err
	}
	r.hasDefault = true
	return nil
}

func planActivation(policies, managed []*unstructured.Unstructured, composed []schema.GroupKind) (activation.Plan, map[string]*unstructured.Unstructured) {
	var definitions []activation.Definition
	byName := map[string]*unstructured.Unstructured{}
	for _, o := range managed {
		if o.GetDeletionTimestamp() != nil || o.GetAnnotations()[PausedAnnotation] == "true" {
			continue
		}
		byName[o.GetName()] = o
		definitions = append(definitions, activation.Definition{Name: o.GetName(), Active: isActive(o),
			Kind: schema.GroupKind{Group: stringAt(o.Object, "spec", "group"), Kind: stringAt(o.Object, "spec", "names", "kind")}})
	}
	var wanted []activation.Policy
	for _, o := range policies {
		if o.GetDeletionTimestamp() != nil || o.GetAnnotations()[PausedAnnotation] == "true" {
			continue
		}
		patterns, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "activate")
		wanted = append(wanted, activation.Policy{Name: o.GetName(), Patterns: patterns})
	}
	return activation.Compute(definitions, wanted, composed), byName
}

func isActive(managed *unstructured.Unstructured) bool {
	return stringAt(managed.Object, "spec", "state") == string(apiextensions.ManagedResourceActive)
}

func (r *Activations) report(ctx context.Context, o *writer.Object, s activation.Status) reconcile.Result {
	if out, waits := r.suspended(ctx, o); waits {
		return out
	}
	healthy := v1alpha1.Condition{Type: apiextensions.TypeHealthy, Status: condition.True, Reason: apiextensions.ReasonRunning}
	if s.Problem != "" {
		healthy.Status, healthy.Reason, healthy.Message = condition.Unknown, apiextensions.ReasonEncounteredErrors, s.Problem
	}
	status := maps.Clone(statusOf(o.Object))
	var activated []any
	for _, name := range s.Activated {
		activated = append(activated, name)
	}
	set(status, "activated", activated)
	_, out := r.writeConditions(ctx, o, status, false, healthy)
	return out
}
