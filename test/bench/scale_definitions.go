package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	kubewatch "github.com/espalier-dev/espalier/internal/kube/watch"
)

const (
	// manyDefinitions is the number of definitions that are measured.
	manyDefinitions = 100
	definitionKind  = "ResourceGraphDefinition"
	unitPrefix      = "Unit" // of their kinds
	// definitionBudget bounds the heap of a definition, in KiB, and recompilationBudget the time until
	// all have been recompiled, in seconds.
	definitionBudget    = 150
	recompilationBudget = 5
)

// unitDefinition is a definition of five resources, of which one is of the kind Leaf. The kind has a field that no other
// kind has, and each ConfigMap a text that those of other definitions do not have: neither schemas nor templates are equal as a whole.
const unitDefinition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %[2]s}
spec:
  schema:
    apiVersion: v1alpha1
    kind: %[1]s
    group: bench.espalier.dev
    spec: {text: string, size: 'string | default="small"', of%[1]s: 'integer | minimum=1'}
    status: {text: "${d.data.text}", value: "${leaf.status.?value.orValue('')}"}
  resources:
    - id: a
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}, data: {text: "${schema.spec.text}", of: %[1]s}}
    - id: b
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${a.metadata.name}-b"}, data: {text: "${a.data.text}", of: %[1]s}}
    - id: c
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${a.metadata.name}-c"}, data: {text: "${a.data.text}", of: %[1]s}}
    - id: d
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${b.metadata.name}-d"}, data: {text: "${b.data.text}", of: %[1]s}}
    - id: leaf
      template: {apiVersion: bench.espalier.dev/v1alpha1, kind: Leaf, metadata: {name: "${c.metadata.name}-leaf"}, spec: {size: "${schema.spec.size}"}}
`

// measureDefinitions measures a hundred definitions: their compilation and memory, and a change of a
// CustomResourceDefinition that all of them use.
func measureDefinitions(ctx context.Context, b *bench) error {
	// The first definition that uses a kind also reads its schema, and watches it.
	const first = "First"
	if _, err := b.createDefinitions(ctx, unitDefinition, first); err != nil {
		return err
	}
	if _, err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	existing, err := b.resource(definitions).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	few := len(existing.Items)
	idle, err := b.restart(ctx, "restart with few definitions", few, b.untilServed(few, 0))
	if err != nil {
		return err
	}
	if err := b.profileHeap("restarted-few"); err != nil {
		return err
	}
	var kinds []string
	for i := range manyDefinitions {
		kinds = append(kinds, fmt.Sprintf("%s%03d", unitPrefix, i))
	}
	if err := b.measureCompilation(ctx, kinds); err != nil {
		return err
	}
	busy, err := b.restart(ctx, "restart with many definitions", few+manyDefinitions, b.untilServed(few+manyDefinitions, manyDefinitions))
	if err != nil {
		return err
	}
	if err := b.profileHeap("restarted-many"); err != nil {
		return err
	}
	b.add(
		row{Work: "heap of a definition after a restart", Unit: "KiB", Value: float64(busy.heap-idle.heap) / manyDefinitions / 1024, Budget: definitionBudget,
			Detail: fmt.Sprintf("all %d reconciled after %.1f s, %.1f s with %d", few+manyDefinitions, busy.took.Seconds(), idle.took.Seconds(), few)},
		row{Work: fmt.Sprintf("restart with %d definitions", few+manyDefinitions), Unit: "writes", Value: float64(busy.requests.of(writes)),
			Detail: fmt.Sprintf("%d reads besides watches", busy.requests.of(work)-busy.requests.of(writes))})
	// The first one and that of the kind Low use it too.
	if err := b.measureRecompilation(ctx, manyDefinitions+2); err != nil {
		return err
	}
	return b.deleteDefinitions(ctx, append(kinds, first)...)
}

// measureCompilation creates definitions, and measures how long it takes until all are ready, and
// their memory.
func (b *bench) measureCompilation(ctx context.Context, kinds []string) error {
	before, goroutines := heap(), runtime.NumGoroutine()
	took, err := b.effort(ctx, func() (time.Duration, error) { return b.createDefinitions(ctx, unitDefinition, kinds...) })
	if err != nil {
		return err
	}
	if _, err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	each := float64(heap()-before) / float64(len(kinds)) / 1024
	progress("%d definitions: ready after %.1f s, %.0f KiB each", len(kinds), took.wall.Seconds(), each)
	b.add(row{Work: fmt.Sprintf("heap of a definition with 5 resources, of %d", len(kinds)), Unit: "KiB", Value: each, Budget: definitionBudget,
		Detail: fmt.Sprintf("all ready after %.1f s; %.0f ms of the controllers' CPU time and %.1f goroutines each", took.wall.Seconds(),
			milliseconds(took.own)/float64(len(kinds)), float64(runtime.NumGoroutine()-goroutines)/float64(len(kinds)))})
	return b.profileHeap("created-many")
}

// profileHeap writes a heap profile of this moment to the folder of -memprofiles.
func (b *bench) profileHeap(moment string) error {
	if b.memprofiles == "" {
		return nil
	}
	if err := os.MkdirAll(b.memprofiles, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(b.memprofiles, moment+".pb.gz"))
	if err != nil {
		return err
	}
	defer file.Close()
	return pprof.WriteHeapProfile(file)
}

// measureRecompilation adds a field to the kind Leaf, and measures how long it takes until all
// definitions that use the kind are reconciled.
func (b *bench) measureRecompilation(ctx context.Context, users int) error {
	did, _ := b.engine.of(definitionKind)
	const patch = `[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color", "value": {"type": "string"}}]`
	var took cost
	own := requests{{"PATCH", "customresourcedefinitions"}: 1}
	r, err := b.countRequests(ctx, "change a CustomResourceDefinition", users, own, func() (err error) {
		took, err = b.effort(ctx, func() (time.Duration, error) {
			began := time.Now()
			if _, err := b.resource(crds).Patch(ctx, "leaves."+group, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}); err != nil {
				return 0, err
			}
			last, err := b.awaitReconciles(ctx, definitionKind, did+users)
			return last.Sub(began), err
		})
		return err
	})
	if err != nil {
		return err
	}
	again, _ := b.engine.of(definitionKind)
	b.add(row{Work: fmt.Sprintf("change a CustomResourceDefinition that %d definitions use", users), Unit: "s", Value: took.wall.Seconds(),
		Budget: recompilationBudget,
		Detail: fmt.Sprintf("until the last reconcile, of %d; %.0f ms of the controllers' CPU time for each definition; %d requests",
			again-did, milliseconds(took.own)/float64(users), r.of(work))})
	return nil
}

// plural is the resource of a kind.
func plural(kind string) string { return strings.ToLower(kind) + "s" }

// createDefinitions creates a definition of each kind from a template, and returns how long it took
// until all were ready.
func (b *bench) createDefinitions(ctx context.Context, template string, kinds ...string) (time.Duration, error) {
	w, err := b.watch(ctx, definitions)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	began := time.Now()
	err = concurrently(ctx, b.workers, len(kinds), func(ctx context.Context, i int) error {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(fmt.Appendf(nil, template, kinds[i], definitionOf(kinds[i])), &o.Object); err != nil {
			return err
		}
		_, err := b.resource(definitions).Create(ctx, &o, metav1.CreateOptions{FieldManager: manager})
		return err
	})
	if err != nil {
		return 0, err
	}
	ready := isReady(1)
	last, err := w.awaitAll(ctx, len(kinds), func(t watch.EventType, o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return o.GetName() == definitionOf(kind) }) && ready(t, o)
	})
	return last.Sub(began), err
}

// untilServed waits until n definitions are reconciled and the kinds of those that are measured are
// watched, and returns when the last reconcile ended.
func (b *bench) untilServed(n, units int) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for b.served() < units {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return time.Time{}, fmt.Errorf("%d of %d kinds are served: %w", b.served(), units, context.Cause(ctx))
			}
		}
		return b.awaitReconciles(ctx, definitionKind, n)
	}
}

// served is the number of the measured definitions' kinds that the controllers watch.
func (b *bench) served() int {
	n := 0
	for _, s := range b.engine.Hub.Stats() {
		if s.Kind.Group == group && strings.HasPrefix(s.Kind.Kind, unitPrefix) && s.State.Phase == kubewatch.Synced {
			n++
		}
	}
	return n
}

// definitionOf is the name of the definition of a kind.
func definitionOf(kind string) string { return "scale-" + strings.ToLower(kind) }

// deleteDefinitions deletes the definitions of kinds without instances, and the kinds.
func (b *bench) deleteDefinitions(ctx context.Context, kinds ...string) error {
	var names, resources []string
	for _, kind := range kinds {
		names, resources = append(names, definitionOf(kind)), append(resources, plural(kind)+"."+group)
	}
	if err := b.deleteAll(ctx, definitions, names); err != nil {
		return err
	}
	return b.deleteAll(ctx, crds, resources)
}

// deleteAll deletes objects, and returns when they are gone.
func (b *bench) deleteAll(ctx context.Context, gvr schema.GroupVersionResource, names []string) error {
	w, err := b.watch(ctx, gvr)
	if err != nil {
		return err
	}
	defer w.stop()
	if err := concurrently(ctx, b.workers, len(names), func(ctx context.Context, i int) error {
		return b.resource(gvr).Delete(ctx, names[i], metav1.DeleteOptions{})
	}); err != nil {
		return err
	}
	_, err = w.awaitAll(ctx, len(names), func(t watch.EventType, o *unstructured.Unstructured) bool {
		return isGone(t, o) && slices.Contains(names, o.GetName())
	})
	progress("%d %s deleted", len(names), gvr.Resource)
	return err
}
