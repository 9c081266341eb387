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
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
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

// readDefinitions reads the selected definitions of both dialects, with their compositions and
// revisions.
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
		return o.GetNamespace() != "" && !e.Selection.IncludesNamespace(o.GetNamespace())
	})
	compositions, err := e.readCompositions(ctx)
	if err != nil {
		return err
	}
	if len(e.Selection.Definitions) > 0 {
		if all, err = e.selectDefinitions(ctx, all, compositions); err != nil {
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

// putRevisions adds the GraphRevisions of the exported definitions: those that serve, and those
// to which a rollback may return.
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
		if !chosen[archive.DefinitionOf(o)] || o.GetDeletionTimestamp() != nil {
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
	exported := map[object.Key]bool{}
	for _, o := range e.compositions {
		exported[object.KeyOf(o)] = true
	}
	for _, o := range e.compositions {
		section := archive.Compositions
		if o.GetKind() == v1.CompositionRevisionKind {
			section = archive.Revisions
			if of := archive.RevisedBy(o); !exported[of] {
				e.note("%s is not exported: %s does not exist", object.KeyOf(o), of)
				continue
			}
		} else if archive.ReadsUID(o) {
			e.note("%s reads metadata.uid, which changes with an import: objects that are named after it would be created again", object.KeyOf(o))
		}
		if err := e.spool.put(section, o); err != nil {
			return err
		}
	}
	e.Progress("read %s, %s and their revisions", diag.Counted(len(e.definitions), "definition", "definitions"),
		diag.Counted(len(e.spool.entries[archive.Compositions]), "composition", "compositions"))
	return nil
}

// all returns all objects of a kind.
func (c *Cluster) all(ctx context.Context, gvk schema.GroupVersionKind) (out []*unstructured.Unstructured, err error) {
	err = c.each(ctx, gvk, func() { out = nil }, func(o *unstructured.Unstructured) error {
		out = append(out, o)
		return nil
	})
	return out, err
}

// allIfServed returns all objects of a kind; none if the kind is not served, as in an older
// control plane.
func (c *Cluster) allIfServed(ctx context.Context, gvk schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	out, err := c.all(ctx, gvk)
	if isUnserved(err) {
		return nil, nil
	}
	return out, err
}

// maxReads is how often compositions and revisions are read while they do not match: a
// composition changed in between, or no controller creates revisions.
const maxReads = 3

// readCompositions reads all compositions, and then their revisions. They have to match: if an
// export had an older composition with a newer revision, composites would follow the newer
// revision for a moment after an import.
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
		if n == maxReads || archive.RevisionsMatch(compositions, revisions) {
			return append(compositions, revisions...), nil
		}
	}
}

// selectDefinitions returns the selected definitions, and the definitions of the kinds that they
// compose, according to graphs, compositions and existing composites.
func (e *Export) selectDefinitions(ctx context.Context, all, compositions []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	composed := archive.Composed{}
	for _, o := range compositions {
		composed.Add(archive.ComposesFor(o), archive.TemplateKinds(o)...)
	}
	for _, o := range all {
		d, err := xrd.Read(o)
		if err != nil {
			continue // a definition of a graph
		}
		layout := xrd.LayoutOf(d.ScopeOrDefault())
		composites, err := e.allIfServed(ctx, d.CompositeKind())
		if err != nil {
			return nil, err
		}
		for _, composite := range composites {
			for _, ref := range xrd.NewInstance(composite, layout).ResourceRefs() {
				composed.Add(d.CompositeKind().GroupKind(), ref.GroupVersionKind())
			}
		}
	}
	chosen, unknown := archive.WithDependencies(all, e.Selection.Definitions, composed)
	if len(unknown) > 0 {
		return nil, fmt.Errorf("definitions %s not found", strings.Join(unknown, ", "))
	}
	return chosen, nil
}

// readFunctions reads the Functions that compositions use, or all. FunctionRevisions are not
// exported: their status holds the address of the function in this cluster, and the package
// manager of another cluster creates its own.
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
			e.note("%s is not exported: it holds the address of a function in this cluster, and no controller creates it in another", object.KeyOf(o))
		}
	}
	return e.readEnvironments(ctx)
}

// readEnvironments reads all EnvironmentConfigs if there is a composition: which of them a
// function reads depends on the composite. No controller creates them, and without them
// functions would return other resources.
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
