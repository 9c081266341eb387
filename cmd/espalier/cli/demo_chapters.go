package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/examples"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// scaledTo is the number of nodes that the cluster is scaled to in the cloud.
const scaledTo = 5

// applyDefinitions applies the three definitions, and waits until they are served.
func (s *demoStory) applyDefinitions(ctx context.Context) (string, error) {
	objects, err := readObjects(examples.EKSWithVPC, s.cloud.folder()+"/[1-3]-*.yaml")
	if err != nil {
		return "", err
	}
	for _, o := range slices.Concat(s.cloud.configuration(), objects) {
		if err := s.apply(ctx, o); err != nil {
			return "", err
		}
	}
	for _, o := range objects {
		if err := s.awaitReady(ctx, o); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d kinds, each made of the ones below", len(objects)), nil
}

// createTop creates one object, and waits until everything below it is ready.
func (s *demoStory) createTop(ctx context.Context) (string, error) {
	objects, err := readObjects(examples.EKSWithVPC, s.cloud.folder()+"/4-*.yaml")
	if err != nil {
		return "", err
	}
	top := objects[0]
	if err := s.apply(ctx, top); err != nil {
		return "", err
	}
	mapping, err := s.cluster.Kinds.RESTMapping(top.GroupVersionKind().GroupKind())
	if err != nil {
		return "", err
	}
	s.target = follow.Target{Mapping: mapping, Namespace: top.GetNamespace(), Name: top.GetName()}
	s.following = true
	s.background(func(ctx context.Context) {
		if err := s.cluster.Follow(ctx, s.target, s.states); err != nil && ctx.Err() == nil {
			s.fail(err)
		}
	})
	err = s.await(ctx, func(w observe.ClusterState) bool {
		if w.Root == nil || !health.Instance(w.Root).Ready {
			return false
		}
		// The event of the last object may arrive after the instance is ready.
		s.objects = observe.Build(w, time.Now()).Count()
		return allReady(w)
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d objects are ready", s.objects), nil
}

func allReady(w observe.ClusterState) bool {
	now := time.Now()
	for _, r := range observe.Rows(observe.Build(w, now), now) {
		if r.Ready != observe.True {
			return false
		}
	}
	return true
}

// deleteTop deletes the object that was created, and waits until it and everything below it is
// gone.
func (s *demoStory) deleteTop(ctx context.Context) (string, error) {
	events, err := s.watchTop(ctx)
	if err != nil {
		return "", err
	}
	defer events.Stop()
	err = s.cluster.ResourceClient(s.target).Delete(ctx, s.target.Name, metav1.DeleteOptions{})
	if err != nil {
		return "", fmt.Errorf("delete %s: %w", s.target, err)
	}
	took := timeUntil(ctx, events, func(e watch.Event) bool { return e.Type == watch.Deleted })
	if err := s.await(ctx, func(w observe.ClusterState) bool { return w.Root == nil }); err != nil {
		return "", err
	}
	s.following = false
	gone := <-took
	if gone.err != nil {
		return "", gone.err
	}
	left, err := s.countLeft(ctx)
	if err != nil {
		return "", err
	}
	if left > 0 {
		return "", fmt.Errorf("the top is gone, but %d objects are left", left)
	}
	return fmt.Sprintf("all %d objects are gone after %s", s.objects, milliseconds(gone.after)), nil
}

// countLeft counts what is left of the example: objects, Bindings and external resources.
func (s *demoStory) countLeft(ctx context.Context) (int, error) {
	count, err := s.cloud.countLeft(ctx)
	if err != nil {
		return 0, fmt.Errorf("list what is left: %w", err)
	}
	crds, err := s.cluster.Client.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list what is left: %w", err)
	}
	for i := range crds.Items {
		group, _, _ := unstructured.NestedString(crds.Items[i].Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crds.Items[i].Object, "spec", "names", "kind")
		if !s.cloud.hasGroup(group) && kind != "Vpc" && kind != "EksCluster" {
			continue
		}
		mapping, err := s.cluster.Kinds.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
		if err != nil {
			return 0, fmt.Errorf("list what is left: %w", err)
		}
		list, err := s.cluster.Client.Resource(mapping.Resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("list what is left: %w", err)
		}
		count += len(list.Items)
	}
	return count, nil
}

// requestReconcile requests a reconcile of an object below the top.
func (s *demoStory) requestReconcile(ctx context.Context, kind schema.GroupKind) error {
	mapping, err := s.cluster.Kinds.RESTMapping(kind)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, resource.ReconcileRequestedAtAnnotation)
	_, err = s.cluster.Client.Resource(mapping.Resource).Namespace(s.target.Namespace).
		Patch(ctx, s.target.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "espalier-demo"})
	if err != nil {
		return fmt.Errorf("request a reconcile of %s %s: %w", kind.Kind, s.target.Name, err)
	}
	return nil
}

// watchTop watches the top from its current resourceVersion.
func (s *demoStory) watchTop(ctx context.Context) (watch.Interface, error) {
	of := s.cluster.ResourceClient(s.target)
	now, err := of.Get(ctx, s.target.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.target, err)
	}
	return of.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + s.target.Name, ResourceVersion: now.GetResourceVersion()})
}

// arrival is the time until an event arrived.
type arrival struct {
	after time.Duration
	err   error
}

// timeUntil measures the time from now until the first event for which wanted is true.
func timeUntil(ctx context.Context, events watch.Interface, wanted func(watch.Event) bool) <-chan arrival {
	begun := time.Now()
	out := make(chan arrival, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				out <- arrival{err: context.Cause(ctx)}
				return
			case e, ok := <-events.ResultChan():
				if !ok {
					out <- arrival{err: errors.New("the API server ended the watch")}
					return
				}
				if wanted(e) {
					out <- arrival{after: time.Since(begun)}
					return
				}
			}
		}
	}()
	return out
}

func nodesOf(e watch.Event) int64 {
	o, _ := e.Object.(*unstructured.Unstructured)
	return shownNodes(o)
}

func shownNodes(o *unstructured.Unstructured) int64 {
	if o == nil {
		return 0
	}
	nodes, _, _ := unstructured.NestedInt64(o.Object, "status", "nodes")
	return nodes
}

// milliseconds formats a short duration.
func milliseconds(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
