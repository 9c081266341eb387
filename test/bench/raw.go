package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// levels are the nodes of manifests/flat.yaml in the order in which they can be
// applied, as the part of the name after the instance's.
var levels = [][]string{{"-a"}, {"-a-b", "-a-c"}, {"-a-b-d", "-a-c-e"}}

// rawWriter is the plain client, which writes and deletes what the controllers do: the instances, of a
// kind that no controller serves, with a finalizer, labels, inventory and status, and for each the same
// five ConfigMaps, level by level, by server-side apply. It reads nothing and watches nothing.
type rawWriter struct {
	*bench
	// models are the children of an instance that the controllers have created, by the suffixes of
	// their names; parent is that instance.
	models map[string]*unstructured.Unstructured
	parent *unstructured.Unstructured
}

// partOf is a label as long as the one by which the controllers select children. They must not
// select those of the plain client, or they would reconcile them.
var partOf = strings.Replace(v1alpha1.ApplySetPartOfLabel, "part-of", "part-no", 1)

// newRaw reads what to write from a ready instance, and installs the kind of its own instances: a
// copy with another name.
func (b *bench) newRaw(ctx context.Context, model string) (*rawWriter, error) {
	parent, err := b.resource(ours("flats")).Get(ctx, model, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	r := &rawWriter{bench: b, parent: parent, models: map[string]*unstructured.Unstructured{}}
	for _, level := range levels {
		for _, suffix := range level {
			child, err := b.resource(configMaps).Get(ctx, model+suffix, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			r.models[suffix] = appliedConfiguration(child)
		}
	}
	return r, b.installKindCopy(ctx, "flats."+group, "Plain", "plains")
}

// appliedConfiguration is what was applied to create an object.
func appliedConfiguration(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "data": o.Object["data"]}}
	out.SetNamespace(o.GetNamespace())
	out.SetAnnotations(o.GetAnnotations())
	labels := o.GetLabels()
	labels[partOf] = labels[v1alpha1.ApplySetPartOfLabel]
	delete(labels, v1alpha1.ApplySetPartOfLabel)
	out.SetLabels(labels)
	out.SetOwnerReferences(o.GetOwnerReferences())
	return out
}

// installKindCopy installs a copy of a kind, which no controller serves.
func (b *bench) installKindCopy(ctx context.Context, name, kind, plural string) error {
	crd, err := b.resource(crds).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": crd.GetAPIVersion(), "kind": crd.GetKind(), "spec": crd.Object["spec"]}}
	out.SetName(plural + "." + group)
	names := map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)}
	if err := unstructured.SetNestedMap(out.Object, names, "spec", "names"); err != nil {
		return err
	}
	if _, err := b.resource(crds).Create(ctx, out, metav1.CreateOptions{FieldManager: manager}); err != nil {
		return err
	}
	w, err := b.watch(ctx, crds)
	if err != nil {
		return err
	}
	defer w.stop()
	_, err = w.await(ctx, func(_ watch.EventType, o *unstructured.Unstructured) bool {
		established, _ := condition(o, "Established")
		return o.GetName() == out.GetName() && established == "True"
	})
	return err
}

// create writes n instances with the given number of workers, and returns how long it took.
func (r *rawWriter) create(ctx context.Context, workers, n int, prefix string) (time.Duration, error) {
	began := time.Now()
	err := concurrently(ctx, workers, n, func(ctx context.Context, i int) error {
		created, err := r.resource(ours("plains")).Create(ctx, r.instance(numberedName(prefix, i)), metav1.CreateOptions{FieldManager: manager})
		if err != nil {
			return err
		}
		for _, level := range levels {
			if err := r.apply(ctx, created, level); err != nil {
				return err
			}
		}
		created.Object["status"] = r.parent.Object["status"]
		_, err = r.resource(ours("plains")).UpdateStatus(ctx, created, metav1.UpdateOptions{FieldManager: manager})
		return err
	})
	return time.Since(began), err
}

// finalizer holds the instances of the plain client until it has deleted their ConfigMaps.
const finalizer = group + "/plain"

// instance is what the user and the controllers write to an instance before it has children.
func (r *rawWriter) instance(name string) *unstructured.Unstructured {
	o := instance("Plain", name)
	o.SetLabels(r.parent.GetLabels())
	o.SetAnnotations(r.parent.GetAnnotations())
	o.SetFinalizers([]string{finalizer})
	return o
}

// apply applies the ConfigMaps of one level, concurrently.
func (r *rawWriter) apply(ctx context.Context, parent *unstructured.Unstructured, level []string) error {
	return concurrently(ctx, len(level), len(level), func(ctx context.Context, i int) error {
		o := r.models[level[i]].DeepCopy()
		o.SetName(parent.GetName() + level[i])
		labels := o.GetLabels()
		labels[v1alpha1.InstanceNameLabel] = parent.GetName()
		o.SetLabels(labels)
		owners := o.GetOwnerReferences()
		for i := range owners {
			if owners[i].UID == r.parent.GetUID() {
				owners[i].Kind, owners[i].Name, owners[i].UID = parent.GetKind(), parent.GetName(), parent.GetUID()
			}
		}
		o.SetOwnerReferences(owners)
		if err := unstructured.SetNestedField(o.Object, text(parent.GetName(), 1), "data", "text"); err != nil {
			return err
		}
		_, err := r.resource(configMaps).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
		return err
	})
}

// delete deletes n instances and their ConfigMaps, the last level first, and returns how long it took.
func (r *rawWriter) delete(ctx context.Context, workers, n int, prefix string) (time.Duration, error) {
	began := time.Now()
	err := concurrently(ctx, workers, n, func(ctx context.Context, i int) error {
		name := numberedName(prefix, i)
		if err := r.resource(ours("plains")).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		for _, level := range slices.Backward(levels) {
			err := concurrently(ctx, len(level), len(level), func(ctx context.Context, i int) error {
				return r.resource(configMaps).Delete(ctx, name+level[i], metav1.DeleteOptions{})
			})
			if err != nil {
				return err
			}
		}
		_, err := r.resource(ours("plains")).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: manager})
		return err
	})
	return time.Since(began), err
}

// instance is an instance as a user writes it.
func instance(kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1alpha1", "kind": kind}}
	o.SetName(name)
	o.SetNamespace(namespace)
	if kind == "Flat" || kind == "Plain" || kind == "Composed" {
		o.Object["spec"] = map[string]any{"text": text(name, 1)}
	}
	return o
}

// text is a value of the instances' field; each wording is another value.
func text(name string, wording int) string { return fmt.Sprintf("%s says %d", name, wording) }

func numberedName(prefix string, i int) string { return fmt.Sprintf("%s-%05d", prefix, i) }
