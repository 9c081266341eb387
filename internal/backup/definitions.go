package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/apiextensions/v1beta1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Kinds of the composition dialect, in the version that they are stored in.
var (
	compositeDefinitionKind = v1.GroupVersion.WithKind(v1.DefinitionKind)
	compositionKind         = v1.GroupVersion.WithKind(v1.CompositionKind)
	revisionKind            = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
	graphRevisionKind       = rev.GroupVersion.WithKind(rev.GraphRevisionKind)
	functionKind            = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind)
	functionRevisionKind    = pkgv1.GroupVersion.WithKind(pkgv1.FunctionRevisionKind)
	environmentKind         = v1beta1.GroupVersion.WithKind(v1beta1.EnvironmentConfigKind)
)

// readDefinitions reads what kinds there are, and what their objects are composed by.
func (e *Export) readDefinitions(ctx context.Context) error {
	var all []*unstructured.Unstructured
	for _, kind := range []string{v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind} {
		found, err := e.all(ctx, v1alpha1.GroupVersion.WithKind(kind))
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	found, err := e.allIfServed(ctx, compositeDefinitionKind)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(append(all, found...), func(o *unstructured.Unstructured) bool {
		return o.GetNamespace() != "" && !e.Selection.In(o.GetNamespace())
	})
	compositions, err := e.readCompositions(ctx)
	if err != nil {
		return err
	}
	if len(e.Selection.Definitions) > 0 {
		if all, err = e.choose(ctx, all, compositions); err != nil {
			return err
		}
		defined := archive.Defined(all)
		compositions = slices.DeleteFunc(compositions, func(o *unstructured.Unstructured) bool { return !defined[archive.ComposesFor(o)] })
	}
	e.definitions, e.compositions = archive.Order(all), compositions
	if err := e.putDefinitions(); err != nil {
		return err
	}
	return e.putRevisions(ctx)
}

// putRevisions puts the revisions of the definitions into the export: those that serve, and
// those that a definition or an instance may go back to.
func (e *Export) putRevisions(ctx context.Context) error {
	all, err := e.allIfServed(ctx, graphRevisionKind)
	if err != nil {
		return err
	}
	chosen := map[object.Key]bool{}
	for _, d := range e.definitions {
		chosen[object.KeyOf(d)] = true
	}
	for _, o := range all {
		if !chosen[archive.Snapshotted(o)] || o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := e.spool.put(archive.Revisions, o); err != nil {
			return err
		}
	}
	return nil
}

func (e *Export) putDefinitions() error {
	for _, d := range e.definitions {
		if err := e.spool.put(archive.Definitions, d); err != nil {
			return err
		}
	}
	for _, o := range e.compositions {
		section := archive.Compositions
		if o.GetKind() == v1.CompositionRevisionKind {
			section = archive.Revisions
		} else if archive.NamesByUID(o) {
			e.note("%s speaks of metadata.uid, which is another after an import: what is named after it would be made anew", object.KeyOf(o))
		}
		if err := e.spool.put(section, o); err != nil {
			return err
		}
	}
	e.Progress("read %d definitions, %d compositions and their revisions", len(e.definitions), len(e.spool.entries[archive.Compositions]))
	return nil
}

// all are all objects of a kind.
func (e *Export) all(ctx context.Context, gvk schema.GroupVersionKind) (out []*unstructured.Unstructured, err error) {
	err = e.each(ctx, gvk, func() { out = nil }, func(o *unstructured.Unstructured) error {
		out = append(out, o)
		return nil
	})
	return out, err
}

// allIfServed are all objects of a kind; none if that isn't served, as in an older control
// plane.
func (e *Export) allIfServed(ctx context.Context, gvk schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	out, err := e.all(ctx, gvk)
	if isUnserved(err) {
		return nil, nil
	}
	return out, err
}

// unsettled bounds how often compositions and their revisions are read that don't fit
// together: one has changed meanwhile, or nobody makes revisions now.
const unsettled = 3

// readCompositions reads all compositions, and then their revisions. They are to be of
// one moment: whoever imports a former composition with its latest revision has composites
// follow the latter for a moment.
func (e *Export) readCompositions(ctx context.Context) ([]*unstructured.Unstructured, error) {
	for n := 1; ; n++ {
		compositions, err := e.allIfServed(ctx, compositionKind)
		if err != nil {
			return nil, err
		}
		revisions, err := e.allIfServed(ctx, revisionKind)
		if err != nil {
			return nil, err
		}
		if n == unsettled || archive.Settled(compositions, revisions) {
			return append(compositions, revisions...), nil
		}
	}
}

// choose are the definitions that were asked for, with those whose kinds they compose: as
// graphs and compositions say, or composites that there are.
func (e *Export) choose(ctx context.Context, all, compositions []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	composed := archive.Composed{}
	for _, o := range compositions {
		composed.Add(archive.ComposesFor(o), archive.Bases(o)...)
	}
	for _, o := range all {
		d, err := xrd.Read(o)
		if err != nil {
			continue // it is a graph's
		}
		places := xrd.LayoutOf(d.ScopeOrDefault())
		composites, err := e.allIfServed(ctx, d.CompositeKind())
		if err != nil {
			return nil, err
		}
		for _, composite := range composites {
			for _, ref := range xrd.NewInstance(composite, places).ResourceRefs() {
				composed.Add(d.CompositeKind().GroupKind(), ref.GroupVersionKind())
			}
		}
	}
	chosen, unknown := archive.With(all, e.Selection.Definitions, composed)
	if len(unknown) > 0 {
		return nil, fmt.Errorf("there is no definition %s", strings.Join(unknown, ", "))
	}
	return chosen, nil
}

// readFunctions reads the functions that compositions name, or all. Where they are called
// is their revisions' status: that is of this cluster, and whoever runs packages in
// another makes revisions there.
func (e *Export) readFunctions(ctx context.Context) error {
	named := map[string]bool{}
	for _, o := range e.compositions {
		for _, name := range archive.FunctionsOf(o) {
			named[name] = true
		}
	}
	wanted := func(name string) bool { return len(e.Selection.Definitions) == 0 || named[name] }
	functions, err := e.allIfServed(ctx, functionKind)
	if err != nil {
		return err
	}
	for _, o := range functions {
		if !wanted(o.GetName()) {
			continue
		}
		if err := e.spool.put(archive.Functions, o); err != nil {
			return err
		}
	}
	revisions, err := e.allIfServed(ctx, functionRevisionKind)
	if err != nil {
		return err
	}
	for _, o := range revisions {
		if metav1.GetControllerOfNoCopy(o) == nil && wanted(o.GetLabels()[pkgv1.PackageLabel]) {
			e.note("%s isn't in the export: it says where a function is called in this cluster; nobody makes it in another", object.KeyOf(o))
		}
	}
	return e.readEnvironments(ctx)
}

// readEnvironments reads what functions read that nobody makes: without it they would have
// composites composed otherwise. Which of them a composition selects shows only in its
// composites, so all are taken as soon as there is one.
func (e *Export) readEnvironments(ctx context.Context) error {
	if len(e.compositions) == 0 {
		return nil
	}
	all, err := e.allIfServed(ctx, environmentKind)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := e.spool.put(archive.Functions, o); err != nil {
			return err
		}
	}
	return nil
}
