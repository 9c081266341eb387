// Package demand reads which kinds the definitions of the cluster name, so that a kind can be installed with the first definition
// that composes it.
package demand

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// Kinds are the kinds of definitions.
var Kinds = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind),
	v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGroupKind),
	apiextensions.GroupVersion.WithKind(apiextensions.CompositionKind),
}

// Demand are the kinds that definitions name.
type Demand struct {
	Kinds []schema.GroupKind
	// Unreadable says which definitions cannot be read; empty if all can. Syncing: they are being
	// read.
	Unreadable string
	Syncing    bool
}

// Lease reads from caches; *watch.Lease implements it.
type Lease interface {
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, watch.State)
}

// Definitions remembers what each definition names. It is used by one reconcile at a time.
type Definitions struct {
	// Kinds are those of Kinds that are read.
	Kinds []schema.GroupVersionKind
	// Matches chooses the kinds to return; it answers the same for a kind at all times.
	Matches func(schema.GroupKind) bool
	// IsDefined reports whether the cluster has the CustomResourceDefinition of a kind.
	IsDefined func(schema.GroupKind) bool

	named map[types.UID]named
}

type named struct {
	generation int64
	kinds      []schema.GroupKind
}

// Read reads all definitions. Their changes bring the next reconcile.
func (d *Definitions) Read(lease Lease) (out Demand) {
	before := d.named
	d.named = map[types.UID]named{}
	for _, kind := range d.Kinds {
		definitions, state := lease.Matching(kind, "", labels.Everything())
		switch {
		case state.Phase == watch.Synced, state.Phase == watch.Unavailable && state.Reason == watch.WaitingForKind && !d.IsDefined(kind.GroupKind()):
		case state.Phase == watch.Unavailable:
			out.Unreadable = cmp.Or(out.Unreadable, fmt.Sprintf("%s: %s", kind.Kind, state.Message))
		default:
			out.Syncing = true
		}
		for _, o := range definitions {
			known, ok := before[o.GetUID()]
			if !ok || known.generation != o.GetGeneration() {
				known = named{o.GetGeneration(), object.NamedKinds(o.Object["spec"], d.Matches)}
			}
			d.named[o.GetUID()] = known
			out.Kinds = append(out.Kinds, known.kinds...)
		}
	}
	return out
}

// Forget frees what is remembered.
func (d *Definitions) Forget() { d.named = nil }
