package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph/standalone"
	"github.com/espalier-dev/espalier/internal/object"
)

// rollBackGraph writes an earlier spec into a Graph. The user who runs the command writes it, so the API server admits it as any other change.
func rollBackGraph(cmd *cobra.Command, flags rollbackFlags, name string) error {
	ctx := cmd.Context()
	if flags.end {
		return &usageError{errors.New("--end does not apply to a Graph: its rollback changes the spec, and lasts until the spec is changed again")}
	}
	namespace, err := flags.where.namespaceOr(flags.namespace)
	if err != nil {
		return err
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	graphs := client.Resource(v1alpha1.GroupVersion.WithResource("graphs")).Namespace(namespace)
	o, err := graphs.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s not found in namespace %s", v1alpha1.GraphKind, name, namespace)
	}
	if err != nil {
		return fmt.Errorf("read Graph %s: %w", name, err)
	}
	plan, err := planGraphRollback(o, flags.to)
	if err != nil {
		return fmt.Errorf("%s %s: %w", v1alpha1.GraphKind, name, err)
	}
	if plan.from != plan.to.Revision {
		if err := plan.write(ctx, client, graphs, o, flags.wait); err != nil {
			return fmt.Errorf("%s %s: %w", v1alpha1.GraphKind, name, err)
		}
	}
	fmt.Fprintf(prose(cmd.OutOrStdout()), "Graph %s %s\n", name, plan)
	return nil
}

// graphRollback is a rollback of a Graph. From is the revision with the current spec; 0 if none has it.
type graphRollback struct {
	from int64
	to   v1alpha1.SpecRevision
}

// planGraphRollback plans a rollback to a revision, or with 0 to the newest one with another spec.
func planGraphRollback(o *unstructured.Unstructured, to int64) (out graphRollback, err error) {
	current := object.Digest(standalone.Content(o))
	var numbers []string
	for _, r := range standalone.Revisions(o) {
		numbers = append(numbers, strconv.FormatInt(r.Revision, 10))
		if r.Digest == current && (to == 0 || out.from != to) {
			out.from = r.Revision
		}
		if r.Revision == to || to == 0 && r.Digest != current {
			out.to = r
		}
	}
	switch {
	case len(numbers) == 0:
		return out, errors.New("it has no revision; with spec.revisionHistoryLimit, each accepted spec is kept")
	case out.to.Revision != 0:
		return out, nil
	case to != 0:
		return out, fmt.Errorf("there is no revision %d; there are %s", to, strings.Join(numbers, ", "))
	}
	return out, fmt.Errorf("there is no revision before %d", out.from)
}

// String describes the rollback as the predicate of a sentence about the Graph.
func (r graphRollback) String() string {
	switch r.from {
	case r.to.Revision:
		return fmt.Sprintf("has the spec of revision %d", r.from)
	case 0:
		return fmt.Sprintf("rolls back to revision %d", r.to.Revision)
	}
	return fmt.Sprintf("rolls back from revision %d to %d", r.from, r.to.Revision)
}

// write writes the spec, and waits until the controllers accept it.
func (r graphRollback) write(ctx context.Context, client dynamic.Interface, graphs dynamic.ResourceInterface, o *unstructured.Unstructured, wait time.Duration) error {
	name := standalone.RevisionName(o.GetName(), o.GetUID(), r.to.Revision)
	recorded, err := client.Resource(appsv1.SchemeGroupVersion.WithResource("controllerrevisions")).Namespace(o.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read revision %d: %w", r.to.Revision, err)
	}
	spec, err := standalone.RecordedContent(recorded, r.to)
	if err != nil {
		return fmt.Errorf("revision %d: %w", r.to.Revision, err)
	}
	if limit, found, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", standalone.LimitField); found {
		spec[standalone.LimitField] = limit
	}
	patch, err := json.Marshal([]map[string]any{ // which fails if the spec has changed since it was read
		{"op": "test", "path": "/metadata/uid", "value": o.GetUID()},
		{"op": "test", "path": "/metadata/generation", "value": o.GetGeneration()},
		{"op": "replace", "path": "/spec", "value": spec},
	})
	if err != nil {
		return err
	}
	patched, err := graphs.Patch(ctx, o.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "espalier-rollback"})
	if err != nil {
		return fmt.Errorf("write the spec of revision %d: %w", r.to.Revision, err)
	}
	if wait == 0 {
		return nil
	}
	if problem := awaitAccepted(ctx, graphs, patched, wait); problem != "" {
		return fmt.Errorf("the spec of revision %d is written, but not accepted: %s", r.to.Revision, problem)
	}
	return nil
}

// awaitAccepted waits until the controllers accept the spec of a Graph. It returns why they do not.
func awaitAccepted(ctx context.Context, graphs dynamic.ResourceInterface, o *unstructured.Unstructured, wait time.Duration) (problem string) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	watcher := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", o.GetName()).String()
		return graphs.Watch(ctx, options)
	}}
	_, err := watchtools.Until(ctx, o.GetResourceVersion(), watcher, func(e watch.Event) (bool, error) {
		now, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return false, nil
		}
		accepted, _ := condition.Read(now).Get(v1alpha1.GraphAccepted)
		if accepted.ObservedGeneration < o.GetGeneration() {
			return false, nil
		}
		if accepted.Status == condition.False {
			problem = accepted.Message
		}
		return true, nil
	})
	if err != nil {
		return fmt.Sprintf("the controllers have not answered within %s", wait)
	}
	return problem
}
