package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// wideDefinition is a definition of as many ConfigMaps as an instance wants, in five collections: one may have
// a thousand items.
var wideDefinition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %[2]s}
spec:
  schema:
    apiVersion: v1alpha1
    kind: %[1]s
    group: bench.espalier.dev
    spec: {text: string, size: integer}
  resources:
` + wideCollections()

// wideCollections divides the children: the collection c has (size+c)/collections of them.
func wideCollections() string {
	var out strings.Builder
	for c := range collections {
		fmt.Fprintf(&out, `
    - id: parts%[1]d
      forEach: [{i: "${lists.range((schema.spec.size + %[1]d) / %[2]d)}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-%[1]d-${string(i)}"}, data: {text: "${schema.spec.text}"}}
`, c, collections)
	}
	return out.String()
}

// childName is the name of a child of an instance; the children are numbered through all collections.
func childName(instance string, child int) string {
	return fmt.Sprintf("%s-%d-%d", instance, collections-1-child%collections, child/collections)
}

const (
	wideKind    = "Wide"
	collections = 5
	// driftedChildren is how many children are changed by another manager, one after the other.
	driftedChildren = 30
)

// measureChildren measures one instance with as many children as each of the sizes.
func measureChildren(ctx context.Context, b *bench) error {
	if _, err := b.createDefinitions(ctx, wideDefinition, wideKind); err != nil {
		return err
	}
	if _, err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	w := wideInstance{bench: b}
	if _, err := w.measure(ctx, "warm", 10); err != nil {
		return err
	}
	for _, n := range b.children {
		measures, err := w.measure(ctx, fmt.Sprintf("wide-%d", n), n)
		if err != nil {
			return fmt.Errorf("%d children: %w", n, err)
		}
		b.plot("children", measures...)
	}
	return b.deleteDefinitions(ctx, wideKind)
}

// wideInstance is one instance with many children.
type wideInstance struct{ *bench }

// measure creates an instance with n children, changes all and single ones of them, and deletes it.
func (w wideInstance) measure(ctx context.Context, name string, n int) ([]measure, error) {
	var out []measure
	each := func(what string, c cost) {
		m := measure{Name: what, Unit: "ms per child", Chart: "children", Budget: perInstance}
		out = append(out, m.at(n, milliseconds(c.wall)/float64(n)))
		m.Name, m.Chart = what+": CPU time of the controllers", ""
		out = append(out, m.at(n, milliseconds(c.own)/float64(n)))
		progress("%s: %s in %.1f s", name, what, c.wall.Seconds())
	}
	wides := w.resource(ours(plural(wideKind)))
	created, err := w.timed(ctx, name, isReady(1), func() error {
		o := instance(wideKind, name)
		o.Object["spec"] = map[string]any{"text": text(name, 1), "size": int64(n)}
		_, err := wides.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
		return err
	})
	if err != nil {
		return nil, err
	}
	each("creation", created)
	drift, err := w.measureDrift(ctx, name, n)
	if err != nil {
		return nil, err
	}
	progress("%s: drift corrected in %.0f ms", name, milliseconds(median(drift)))
	out = append(out,
		measure{Name: "drift of one child, until it is corrected, p50", Unit: "ms", Chart: "drift"}.at(n, milliseconds(median(drift))),
		measure{Name: "drift of one child, until it is corrected, at most", Unit: "ms", Chart: "drift"}.at(n, milliseconds(most(drift))))
	changed, err := w.timed(ctx, name, isReady(2), func() error {
		_, err := wides.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"text":%q}}`, text(name, 2)), metav1.PatchOptions{FieldManager: manager})
		return err
	})
	if err != nil {
		return nil, err
	}
	each("change of all", changed)
	deleted, err := w.timed(ctx, name, isGone, func() error { return wides.Delete(ctx, name, metav1.DeleteOptions{}) })
	if err != nil {
		return nil, err
	}
	each("deletion", deleted)
	return out, nil
}

// timed calls do and waits until the instance passes the check. It begins when no requests come any more.
func (w wideInstance) timed(ctx context.Context, name string, check check, do func() error) (cost, error) {
	if _, err := w.awaitQuiet(ctx); err != nil {
		return cost{}, err
	}
	seen, err := w.watch(ctx, ours(plural(wideKind)))
	if err != nil {
		return cost{}, err
	}
	defer seen.stop()
	return w.effort(ctx, func() (time.Duration, error) {
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		ended, err := seen.await(ctx, withPrefix(name, check))
		return ended.Sub(began), err
	})
}

// measureDrift changes single children, and returns how long it took from the response to each change
// until the child was as before.
func (w wideInstance) measureDrift(ctx context.Context, name string, n int) ([]time.Duration, error) {
	seen, err := w.watch(ctx, configMaps)
	if err != nil {
		return nil, err
	}
	defer seen.stop()
	var all []time.Duration
	for i := range min(driftedChildren, n) {
		child := childName(name, i*(n/min(driftedChildren, n)))
		changed, err := w.resource(configMaps).Patch(ctx, child, types.MergePatchType, []byte(`{"data":{"text":"drifted"}}`), metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			return nil, err
		}
		began := time.Now()
		drifted := false
		ended, err := seen.await(ctx, func(_ watch.EventType, o *unstructured.Unstructured) bool {
			if o.GetName() != child {
				return false
			}
			if drifted = drifted || o.GetResourceVersion() == changed.GetResourceVersion(); !drifted {
				return false
			}
			value, _, _ := unstructured.NestedString(o.Object, "data", "text")
			return value == text(name, 1)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, max(0, ended.Sub(began)))
	}
	return all, nil
}
