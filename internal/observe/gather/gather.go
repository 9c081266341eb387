// Package gather collects what explains the state of a cluster: definitions, instances, what they consist
// of, and the events about them, without data of Secrets. Commands that read a cluster read such a record in
// its place (package kube/recorded).
package gather

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// Record is what has been collected.
type Record struct {
	Objects []*unstructured.Unstructured
	// Notes say what could not be read, and why.
	Notes []string
}

// Collect reads a cluster with the permissions of a connection. What may not be read is left out, with a
// note. If namespaces are given, objects of others are left out.
func Collect(ctx context.Context, config *rest.Config, namespaces []string) (*Record, error) {
	cluster, err := reader.New(config)
	if err != nil {
		return nil, err
	}
	served, err := cluster.Kinds.Served("list")
	if err != nil && len(served) == 0 {
		return nil, fmt.Errorf("discover the kinds of the cluster: %w", err)
	}
	c := &collector{Cluster: cluster, namespaces: namespaces, kinds: map[schema.GroupKind]metav1.APIResource{}, collected: map[schema.GroupKind]bool{}}
	if err != nil {
		c.note("discovery: " + err.Error())
	}
	for _, r := range served {
		c.kinds[schema.GroupKind{Group: r.Group, Kind: r.Kind}] = r
	}
	return &c.record, c.run(ctx)
}

type collector struct {
	*reader.Cluster
	namespaces []string
	kinds      map[schema.GroupKind]metav1.APIResource
	collected  map[schema.GroupKind]bool
	record     Record
}

func (c *collector) note(text string) {
	c.record.Notes = append(c.record.Notes, diag.Printable(text)) // it may be that of an extension API server
}

// ownGroups are the API groups of definitions, of their instances' records, and of functions and usages.
// Groups that end in ownSuffix are those of providers.
var ownGroups = []string{"kro.run", "internal.kro.run", "espalier.dev", "apiextensions.crossplane.io", "ops.crossplane.io", "pkg.crossplane.io", "protection.crossplane.io"}

const ownSuffix = ".espalier.dev"

var (
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	eventKind     = schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
)

// run collects definitions and instances first, then what the inventories of instances name, as long as that
// brings further instances.
func (c *collector) run(ctx context.Context) error {
	wanted := map[schema.GroupKind]string{} // with the selector
	for gk := range c.kinds {
		if slices.Contains(ownGroups, gk.Group) || strings.HasSuffix(gk.Group, ownSuffix) {
			wanted[gk] = ""
		}
	}
	definitions := c.list(ctx, crdKind, "")
	for _, o := range definitions {
		if d, err := crd.Decode(o); err == nil && isServed(o) {
			wanted[crd.GroupKind(d)] = ""
		}
	}
	for len(wanted) > 0 && ctx.Err() == nil {
		next := map[schema.GroupKind]string{}
		for _, gk := range slices.SortedFunc(maps.Keys(wanted), compareKinds) {
			if c.collected[gk] {
				continue
			}
			c.collected[gk] = true
			for _, o := range c.list(ctx, gk, wanted[gk]) {
				c.record.Objects = append(c.record.Objects, Redact(o))
				for _, child := range inventory.Read(o).GroupKinds() {
					next[child] = v1alpha1.ApplySetPartOfLabel
				}
			}
		}
		wanted = next
		maps.DeleteFunc(wanted, func(gk schema.GroupKind, _ string) bool { return c.collected[gk] })
	}
	for _, o := range definitions {
		if d, err := crd.Decode(o); err == nil && c.collected[crd.GroupKind(d)] {
			c.record.Objects = append(c.record.Objects, Redact(o))
		}
	}
	c.addNamespaces(ctx)
	c.addEvents(ctx)
	return ctx.Err()
}

func compareKinds(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) }

// isServed says whether a CustomResourceDefinition is of a kind that a definition defines.
func isServed(o *unstructured.Unstructured) bool {
	if o.GetLabels()[v1alpha1.OwnedLabel] != "" {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && owner.Kind == "CompositeResourceDefinition"
}

// list lists the objects of a kind in the namespaces. A kind that is not served has none.
func (c *collector) list(ctx context.Context, gk schema.GroupKind, selector string) []*unstructured.Unstructured {
	k, served := c.kinds[gk]
	if !served {
		return nil
	}
	places := []string{metav1.NamespaceAll}
	if k.Namespaced && len(c.namespaces) > 0 {
		places = c.namespaces
	}
	var out []*unstructured.Unstructured
	for _, namespace := range places {
		q := reader.Query{Resource: reader.ResourceOf(k), Namespace: namespace, Labels: selector}
		found, err := c.List(ctx, q)
		out = append(out, found...)
		switch {
		case apierrors.IsForbidden(err): // its text says it three times, and a record has one for each kind
			c.note("you are not allowed to list " + reader.Place(q, k.Namespaced))
		case err != nil:
			c.note(err.Error())
		}
	}
	return out
}

// addNamespaces adds the namespaces of what has been collected.
func (c *collector) addNamespaces(ctx context.Context) {
	names := map[string]bool{}
	for _, o := range c.record.Objects {
		names[o.GetNamespace()] = true
	}
	for _, o := range c.list(ctx, namespaceKind, "") {
		if names[o.GetName()] {
			c.record.Objects = append(c.record.Objects, Redact(o))
		}
	}
}

// addEvents adds the events about what has been collected.
func (c *collector) addEvents(ctx context.Context) {
	known := map[string]bool{}
	for _, o := range c.record.Objects {
		known[string(o.GetUID())] = true
	}
	for _, e := range c.list(ctx, eventKind, "") {
		if uid, _, _ := unstructured.NestedString(e.Object, "regarding", "uid"); known[uid] {
			c.record.Objects = append(c.record.Objects, Redact(e))
		}
	}
}

// Redacted is in the place of each value of a Secret.
const Redacted = "UkVEQUNURUQ=" // REDACTED in base64

// lastApplied is the annotation in which kubectl repeats what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Redact returns an object without the values of a Secret, and without what kubectl repeats of an object.
func Redact(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", lastApplied)
	if out.GetKind() != "Secret" || out.GroupVersionKind().Group != "" {
		return out
	}
	unstructured.RemoveNestedField(out.Object, "stringData")
	data, _ := out.Object["data"].(map[string]any)
	for key := range data {
		data[key] = Redacted
	}
	return out
}
