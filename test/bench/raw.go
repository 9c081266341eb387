package main

import (
	"context"
	"encoding/json"
	"fmt"
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

// rawWriter is the plain client, which writes what the controllers write: the instances, of a
// kind that no controller serves, and for each the same five ConfigMaps, level by level, by
// server-side apply. It reads nothing and watches nothing.
type rawWriter struct {
	*bench
	// models are the children of an instance that the controllers have created, by the suffixes of
	// their names; parent is that instance.
	models map[string]*unstructured.Unstructured
	parent *unstructured.Unstructured
	// whole makes it also write what the controllers write to an instance: its metadata and its
	// status.
	whole bool
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
		name := numberedName(prefix, i)
		if _, err := r.resource(ours("plains")).Create(ctx, instance("Plain", name), metav1.CreateOptions{FieldManager: manager}); err != nil {
			return err
		}
		if r.whole {
			if err := r.writeMetadata(ctx, name); err != nil {
				return err
			}
		}
		for _, level := range levels {
			if err := r.apply(ctx, name, level); err != nil {
				return err
			}
		}
		if r.whole {
			return r.writeStatus(ctx, name)
		}
		return nil
	})
	return time.Since(began), err
}

// apply applies the ConfigMaps of one level, concurrently.
func (r *rawWriter) apply(ctx context.Context, name string, level []string) error {
	return concurrently(ctx, len(level), len(level), func(ctx context.Context, i int) error {
		o := r.models[level[i]].DeepCopy()
		o.SetName(name + level[i])
		labels := o.GetLabels()
		labels[v1alpha1.InstanceNameLabel] = name
		o.SetLabels(labels)
		if err := unstructured.SetNestedField(o.Object, text(name, 1), "data", "text"); err != nil {
			return err
		}
		_, err := r.resource(configMaps).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
		return err
	})
}

// writeMetadata writes what the controllers write to an instance before they create children.
// Instead of the finalizer, which would have to be removed later, it writes an annotation.
func (r *rawWriter) writeMetadata(ctx context.Context, name string) error {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1alpha1", "kind": "Plain"}}
	o.SetName(name)
	o.SetLabels(r.parent.GetLabels())
	annotations := r.parent.GetAnnotations()
	annotations["finalizers"] = strings.Join(r.parent.GetFinalizers(), ",")
	o.SetAnnotations(annotations)
	_, err := r.resource(ours("plains")).Apply(ctx, name, o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}

// writeStatus writes a status as the controllers do.
func (r *rawWriter) writeStatus(ctx context.Context, name string) error {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": r.parent.Object["status"]}})
	if err != nil {
		return err
	}
	_, err = r.resource(ours("plains")).Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
	return err
}

// deleteAll deletes everything that was written.
func (r *rawWriter) deleteAll(ctx context.Context) error {
	if err := r.resource(configMaps).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: partOf}); err != nil {
		return err
	}
	return r.resource(ours("plains")).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
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
