package backup

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// readInstances reads the instances of all definitions, also those that are children of other
// instances: their inventories cannot be computed again.
func (e *Export) readInstances(ctx context.Context) error {
	all := map[object.Key]archive.Parent{}
	claimed, bound := map[object.Key]bool{}, map[object.Key]bool{}
	for _, gvk := range e.kinds.instances {
		reset := func() {
			e.spool.dropKind(archive.Instances, object.Key{Group: gvk.Group, Kind: gvk.Kind})
			maps.DeleteFunc(all, func(key object.Key, _ archive.Parent) bool { return key.GroupKind() == gvk.GroupKind() })
		}
		err := e.each(ctx, gvk, reset, func(o *unstructured.Unstructured) error {
			key := object.KeyOf(o)
			all[key] = archive.ParentOf(o)
			if e.kinds.composites[gvk.GroupKind()] {
				_, bound[key] = xrd.NewInstance(o, xrd.ClaimLayout()).CompositeRef()
				by, _, _ := inventory.ClaimedBy(o)
				claimed[by] = true
			}
			return e.putInstance(o)
		})
		if err != nil {
			return err
		}
	}
	e.instances = e.Selection.SelectInstances(all)
	for key := range all {
		if _, selected := e.instances[key]; !selected {
			e.spool.drop(archive.Instances, key)
		}
	}
	e.Progress("read %s", diag.Counted(len(e.instances), "instance", "instances"))
	return e.readInstancesAgain(ctx, func(key object.Key) bool { return claimed[key] && !bound[key] })
}

// putInstance adds an instance, with its status if functions read it.
func (e *Export) putInstance(o *unstructured.Unstructured) error {
	if !e.kinds.composites[o.GroupVersionKind().GroupKind()] {
		return e.spool.put(archive.Instances, o)
	}
	for _, layout := range []xrd.Layout{xrd.LayoutOf(v1.NamespacedScope), xrd.LayoutOf(v1.LegacyClusterScope)} {
		for _, ref := range xrd.NewInstance(o, layout).ResourceRefs() {
			e.composed[ref.GroupVersionKind()] = true
		}
	}
	return e.spool.putWithStatus(archive.Instances, o)
}

// readInstancesAgain reads two sorts of instances once more: claims that did not refer to their
// composite yet while it is exported, since an import without the reference would create another
// composite; and instances of graphs that composites are composed of, since functions read their
// status, which is known only after all instances were read.
func (e *Export) readInstancesAgain(ctx context.Context, lacksRef func(object.Key) bool) error {
	kinds := map[schema.GroupKind]schema.GroupVersionKind{}
	for _, gvk := range e.kinds.instances {
		kinds[gvk.GroupKind()] = gvk
	}
	for key := range e.instances {
		needsStatus := !e.kinds.composites[key.GroupKind()] && archive.IsOrHasAncestorOf(key, e.kinds.composites, e.instances)
		if !needsStatus && !lacksRef(key) {
			continue
		}
		live, err := e.get(ctx, kinds[key.GroupKind()], key.Namespace, key.Name)
		switch {
		case err != nil:
			return err
		case live == nil: // it was deleted since
		case needsStatus:
			err = e.spool.putWithStatus(archive.Instances, live)
		default:
			err = e.putInstance(live)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readUsages reads the usages of exported objects.
func (e *Export) readUsages(ctx context.Context) error {
	isExported := func(key object.Key) bool {
		_, instance := e.instances[key]
		_, managed := e.spool.entries[archive.Managed][key]
		return instance || managed
	}
	for _, gvk := range usage.Kinds {
		found, err := e.allIfServed(ctx, gvk)
		if err != nil {
			return err
		}
		for _, o := range slices.DeleteFunc(found, func(o *unstructured.Unstructured) bool {
			return !e.Selection.IncludesUsage(o, e.instances, isExported)
		}) {
			if err := e.spool.put(archive.Usages, o); err != nil {
				return err
			}
		}
	}
	return nil
}
