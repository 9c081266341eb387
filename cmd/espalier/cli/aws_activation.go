package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/util/retry"

	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// activations are the objects that activate resource types.
type activations struct {
	client dynamic.ResourceInterface
	// documents are the API server's schemas of kinds.
	documents openapi.Client
}

// activations connects to the cluster. The error is errNotInstalled if it does not serve the kind.
func (f *clusterFlags) activations() (activations, error) {
	config, err := f.config()
	if err != nil {
		return activations{}, err
	}
	cluster, err := reader.New(config)
	if err != nil {
		return activations{}, err
	}
	target, err := cluster.Kinds.Target(v1alpha1.ResourceTypeActivationKind+"."+v1alpha1.GroupVersion.Version+"."+v1alpha1.GroupVersion.Group, "", "")
	unknown := (*reader.UnknownKindError)(nil)
	switch {
	case errors.As(err, &unknown):
		return activations{}, errNotInstalled
	case err != nil:
		return activations{}, err
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return activations{}, err
	}
	return activations{cluster.ResourceClient(target), server.OpenAPIV3()}, nil
}

func (a activations) list(ctx context.Context) ([]v1alpha1.ResourceTypeActivation, error) {
	found, err := a.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []v1alpha1.ResourceTypeActivation
	for _, item := range found.Items {
		each, err := activationOf(&item)
		if err != nil {
			return nil, err
		}
		out = append(out, *each)
	}
	return out, nil
}

// change changes the spec of an activation, and creates it if create is set. It repeats after a conflict, and
// returns the object as it is stored; nil if it does not exist.
func (a activations) change(ctx context.Context, name string, create bool,
	change func(*resource.ActivationSpec) error) (*v1alpha1.ResourceTypeActivation, error) {
	var stored *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored = nil
		found, err := a.client.Get(ctx, name, metav1.GetOptions{})
		exists := !apierrors.IsNotFound(err)
		switch {
		case !exists && !create:
			return nil
		case !exists:
			found = &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ResourceTypeActivationKind, "metadata": map[string]any{"name": name},
			}}
		case err != nil:
			return err
		case create && found.GetDeletionTimestamp() != nil:
			return fmt.Errorf("ResourceTypeActivation %s is being deleted and activates nothing; use --name for another ResourceTypeActivation", name)
		}
		typed, err := activationOf(found)
		if err != nil {
			return err
		}
		if err := change(&typed.Spec.ActivationSpec); err != nil {
			return err
		}
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed.Spec)
		if err != nil {
			return err
		}
		found.Object["spec"] = spec // only the spec, so that unknown fields of the rest stay
		if !exists {
			stored, err = a.client.Create(ctx, found, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("resourcetypeactivations").GroupResource(), name, err)
			}
			return err
		}
		stored, err = a.client.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil || stored == nil {
		return nil, err
	}
	return activationOf(stored)
}

func activationOf(u *unstructured.Unstructured) (*v1alpha1.ResourceTypeActivation, error) {
	var out v1alpha1.ResourceTypeActivation
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
		return nil, fmt.Errorf("decode ResourceTypeActivation %s: %w", u.GetName(), err)
	}
	return &out, nil
}

// addPatterns adds patterns that are missing.
func addPatterns(to []resource.TypePattern, patterns []string) []resource.TypePattern {
	for _, p := range patterns {
		if !slices.Contains(to, resource.TypePattern(p)) {
			to = append(to, resource.TypePattern(p))
		}
	}
	return to
}

// progress is what a status says about a change of a spec.
type progress struct {
	// Done: the controllers have seen the change, and all kinds are served.
	Done bool
	// Failed says why kinds are not served, and will not be without another change.
	Failed string
	// Waiting says what is missing.
	Waiting string
}

// finalReasons are the reasons of Ready that stay until somebody changes something.
var finalReasons = []string{string(resource.UnknownType), string(resource.UnsupportedType), string(resource.TooManyKinds),
	string(resource.KindForbidden), "Conflict"}

func progressOf(a *v1alpha1.ResourceTypeActivation) progress {
	if a.Status.ObservedGeneration < a.Generation {
		return progress{Waiting: "the provider has not reconciled ResourceTypeActivation " + a.Name + " yet; is it running?"}
	}
	for _, c := range a.Status.Conditions {
		switch {
		case c.Type != "Ready":
		case c.Status == metav1.ConditionTrue:
			return progress{Done: true}
		case slices.Contains(finalReasons, c.Reason):
			return progress{Failed: c.Reason + ": " + c.Message}
		default:
			return progress{Waiting: c.Reason + ": " + c.Message}
		}
	}
	return progress{Waiting: "ResourceTypeActivation " + a.Name + " has no condition Ready yet"}
}

// stateLines are lines about kinds whose state is not the one that was printed before.
func stateLines(a *v1alpha1.ResourceTypeActivation, printed map[string]string) (out []string) {
	for _, t := range a.Status.Types {
		key, state := t.Type+" "+t.Kind, string(t.State)
		if t.Message != "" {
			state += ": " + t.Message
		}
		if printed[key] == state {
			continue
		}
		printed[key] = state
		kind := t.Kind
		if kind == "" {
			kind = "-"
		}
		out = append(out, fmt.Sprintf("%s\t%s\t%s", t.Type, kind, state))
	}
	return out
}
