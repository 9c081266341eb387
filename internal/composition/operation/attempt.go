package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	apiextensionsv1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// result is the result of an attempt.
type result struct {
	outputs []opsv1alpha1.StepOutput
	applied []opsv1alpha1.AppliedResourceRef
	// failure is an error without values of Secrets; nil after success. A permanent one is an error of the operation itself.
	failure   error
	permanent bool
}

// attemptTimeout bounds an attempt, as in Crossplane.
const attemptTimeout = 2 * time.Minute

// ReconcileTimeout bounds the reconcile of an Operation, which writes the result after the attempt.
const ReconcileTimeout = attemptTimeout + 10*time.Second

// attempt runs the pipeline once, and applies what it returns.
func (r *Operations) attempt(ctx context.Context, o *unstructured.Unstructured, op *opsv1alpha1.Operation, account Account) (out result) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	f := &fetcher{Account: account, kinds: r.Kinds, deleted: deletedObject(op)}
	fail := func(err error, permanent bool) result {
		out.failure, out.permanent = errors.New(f.secrets.Redact(err.Error())), permanent
		return out
	}
	steps, permanent, err := f.steps(ctx, op)
	if err != nil {
		return fail(err, permanent)
	}
	outputs := map[string]map[string]any{}
	p := pipeline.Pipeline{Runner: r.Functions, Fetcher: f, Record: func(called pipeline.Recorded) {
		if output := called.Response.GetOutput(); output != nil {
			outputs[called.Step.Name] = output.AsMap()
		}
	}}
	ran := p.Run(ctx, steps, pipeline.Request{})
	for _, one := range ran.Results {
		severity := telemetry.Normal
		if one.Warning {
			severity = telemetry.Warning
		}
		r.Events.Event(o, severity, one.Reason, f.secrets.Redact(one.String()))
	}
	if ran.Failure != nil {
		return fail(ran.Failure, false)
	}
	objects, err := objectsOf(ran.Desired)
	if err != nil {
		return fail(err, false)
	}
	if out.outputs, err = outputsOf(op, outputs, &f.secrets); err != nil {
		return fail(err, false)
	}
	for _, desired := range objects {
		one, err := f.apply(ctx, desired, "ops.crossplane.io/operation/"+string(op.UID))
		if err != nil {
			return fail(fmt.Errorf("apply %s: %w", object.KeyOf(desired), err), false)
		}
		out.applied = append(out.applied, opsv1alpha1.AppliedResourceRef{
			APIVersion: one.GetAPIVersion(), Kind: one.GetKind(), Namespace: one.GetNamespace(), Name: one.GetName(),
		})
	}
	return out
}

// objectsOf returns the desired objects in the order of their names in the pipeline, or all reasons why they cannot be applied.
func objectsOf(desired *pipeline.Desired) (out []*unstructured.Unstructured, err error) {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(desired.Resources)) {
		o := &unstructured.Unstructured{Object: desired.Resources[name].Object}
		if o.GetName() == "" {
			problems = append(problems, fmt.Errorf("resource %q (%s) has no metadata.name; an operation applies objects by their names", name, o.GetKind()))
		}
		if problem := object.CheckComposable(o.GroupVersionKind().GroupKind()); problem != "" {
			problems = append(problems, fmt.Errorf("resource %q: %s", name, problem))
		}
		out = append(out, o)
	}
	return out, errors.Join(problems...)
}

// apply creates an object, or changes the fields of an existing one, even if another manager owns them.
func (f *fetcher) apply(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	resource, err := f.kinds.Resolve(ctx, o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if resource.Namespaced && o.GetNamespace() == "" {
		return nil, errors.New("it has no metadata.namespace, and its kind is in namespaces")
	}
	live, err := f.Cluster.Get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	switch {
	case kube.IsObjectNotFound(err, o.GetName()):
		live, err = f.Cluster.Create(ctx, o, manager)
	case err != nil:
		return nil, err
	default:
		live, err = f.Cluster.Update(ctx, o, live.GetUID(), manager)
	}
	if err != nil {
		return nil, kube.Redacted(err) // it may quote what was sent
	}
	return live, nil
}

// maxOutputs bounds the outputs of all steps, in bytes: the status has to fit into an object of the API server.
const maxOutputs = 512 << 10

// outputsOf are the outputs in the order of the steps.
func outputsOf(op *opsv1alpha1.Operation, all map[string]map[string]any, secrets *composite.Secrets) (out []opsv1alpha1.StepOutput, err error) {
	size := 0
	for _, step := range op.Spec.Pipeline {
		output, has := all[step.Step]
		if !has {
			continue
		}
		if secrets.AreIn(output) {
			return nil, fmt.Errorf("step %q: its output has data of a Secret, which readers of the Operation would see", step.Step)
		}
		raw, err := json.Marshal(output)
		if err != nil {
			return nil, fmt.Errorf("step %q: encode its output: %w", step.Step, err)
		}
		if size += len(raw); size > maxOutputs {
			return nil, fmt.Errorf("step %q: the outputs of the steps have more than %d bytes", step.Step, maxOutputs)
		}
		out = append(out, opsv1alpha1.StepOutput{Step: step.Step, Output: &runtime.RawExtension{Raw: raw}})
	}
	return out, nil
}

// merge returns the references of all attempts, sorted.
func merge(before, more []opsv1alpha1.AppliedResourceRef) []opsv1alpha1.AppliedResourceRef {
	all := slices.Concat(before, more)
	slices.SortFunc(all, func(a, b opsv1alpha1.AppliedResourceRef) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(all)
}

// credentials reads the Secrets of a step.
func (f *fetcher) credentials(ctx context.Context, step apiextensionsv1.PipelineStep) (map[string]map[string][]byte, error) {
	out := map[string]map[string][]byte{}
	for _, c := range step.Credentials {
		if c.Source != apiextensionsv1.CredentialsSecret || c.SecretRef == nil {
			continue
		}
		secret, err := f.Cluster.Get(ctx, secretKind, c.SecretRef.Namespace, c.SecretRef.Name)
		if err != nil {
			return nil, fmt.Errorf("step %q: read Secret %s/%s of its credentials %s: %w", step.Step, c.SecretRef.Namespace, c.SecretRef.Name, c.Name, err)
		}
		f.secrets.AddObject(secret)
		out[c.Name] = object.SecretData(secret)
	}
	return out, nil
}

// steps returns the steps with their credentials. An error of the operation itself is permanent.
func (f *fetcher) steps(ctx context.Context, op *opsv1alpha1.Operation) (steps []pipeline.Step, permanent bool, err error) {
	for _, p := range op.Spec.Pipeline {
		step, err := composite.NewStep(p)
		if err != nil {
			return nil, true, fmt.Errorf("step %q: %w", p.Step, err)
		}
		if step.Credentials, err = f.credentials(ctx, p); err != nil {
			return nil, false, err
		}
		steps = append(steps, step)
	}
	return steps, false, nil
}
