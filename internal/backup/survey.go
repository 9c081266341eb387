package backup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// survey is the result of checking a cluster before an import: which objects exist, and which
// problems prevent the import.
type survey struct {
	findings []finding
	problems []string
	// hold is the Hold that an earlier run of this import has left; nil if there is none.
	hold *unstructured.Unstructured
}

// finding is what to do about an object: create it, or keep the existing one.
type finding struct {
	object *unstructured.Unstructured
	verb   string
}

const (
	create = "create"
	keep   = "keep"
)

func (s *survey) missing() int {
	n := 0
	for _, f := range s.findings {
		if f.verb == create {
			n++
		}
	}
	return n
}

func (s *survey) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// survey reads all objects that an import would write, and collects all problems.
func (i *Import) survey(ctx context.Context) (*survey, error) {
	s := &survey{problems: i.File.Check()}
	if err := i.surveyKinds(ctx, s); err != nil {
		return nil, err
	}
	if err := i.surveyHolds(ctx, s); err != nil {
		return nil, err
	}
	for _, section := range archive.AllSections {
		for _, o := range i.File.Sections[section] {
			if err := i.surveyOne(ctx, s, section, o); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// surveyHolds looks for imports that are in progress or were interrupted.
func (i *Import) surveyHolds(ctx context.Context, s *survey) error {
	err := i.each(ctx, holdKind, func() {}, func(h *unstructured.Unstructured) error {
		of, _, _ := unstructured.NestedString(h.Object, "spec", "import")
		switch of {
		case i.File.Header.ID:
			s.hold = h
		case "":
			i.Progress("Hold %s exists, too: the controllers stay paused until it is deleted", h.GetName())
		default:
			s.problem("another import is in progress or was interrupted, see Hold %s: finish it first by running it again, or abort it with --abort", h.GetName())
		}
		return nil
	})
	if isUnserved(err) {
		return nil // surveyKinds reports it
	}
	return err
}

// surveyKinds looks for kinds that are not served and that no definition of the export defines.
func (i *Import) surveyKinds(ctx context.Context, s *survey) error {
	defined := archive.Defined(i.File.Sections[archive.Definitions])
	wanted := map[schema.GroupVersionKind]string{}
	var order []schema.GroupVersionKind
	want := func(gvk schema.GroupVersionKind, why string) {
		if _, ok := wanted[gvk]; !ok && !defined[gvk.GroupKind()] {
			wanted[gvk] = why
			order = append(order, gvk)
		}
	}
	want(holdKind, "which an import needs: the controllers have never run here, or are too old. Start them with 'espalier run' or 'espalier up'")
	for _, o := range i.File.Objects() {
		want(o.GroupVersionKind(), "which objects of the export have: install its CustomResourceDefinition first")
	}
	for _, k := range i.File.Header.Requires {
		want(k.GVK(), "which definitions compose: install its CustomResourceDefinition first")
	}
	installed, err := i.installedKinds(ctx)
	if err != nil {
		return err
	}
	for _, gvk := range order {
		served, err := i.awaitServed(ctx, gvk, installed[gvk.GroupKind()])
		if err != nil {
			return err
		}
		if !served {
			s.problem("no matches for kind %q in version %q, %s", gvk.Kind, gvk.GroupVersion(), wanted[gvk])
		}
	}
	return nil
}

// installedKinds returns the kinds that have a CustomResourceDefinition. Discovery shows them shortly
// after it is created.
func (i *Import) installedKinds(ctx context.Context) (map[schema.GroupKind]bool, error) {
	out := map[schema.GroupKind]bool{}
	err := i.each(ctx, crdKind, func() {}, func(o *unstructured.Unstructured) error {
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		if o.GetDeletionTimestamp() == nil {
			out[schema.GroupKind{Group: group, Kind: kind}] = true
		}
		return nil
	})
	return out, err
}

// awaitServed reports whether a kind is served. It waits for one that has a
// CustomResourceDefinition.
func (i *Import) awaitServed(ctx context.Context, gvk schema.GroupVersionKind, installed bool) (bool, error) {
	for deadline := time.Now().Add(servingTimeout); ; {
		_, err := i.objects(gvk, "")
		if !isUnserved(err) {
			return err == nil, err
		}
		if !installed || time.Now().After(deadline) {
			return false, nil
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// surveyOne checks whether an object exists, and whether the existing one can be kept.
func (i *Import) surveyOne(ctx context.Context, s *survey, section archive.Section, o *unstructured.Unstructured) error {
	if section == archive.Bindings {
		return i.surveyBinding(ctx, s, o)
	}
	live, err := i.get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	if err != nil && !isUnserved(err) {
		return err
	}
	key := object.KeyOf(o)
	if live == nil {
		s.findings = append(s.findings, finding{o, create})
		return nil
	}
	i.uids[key] = live.GetUID()
	s.findings = append(s.findings, finding{o, keep})
	_, deleting := archive.Deleting(o)
	switch {
	case live.GetDeletionTimestamp() != nil && !deleting:
		s.problem("%s is being deleted: wait until it is gone", key)
	case section == archive.Namespaces, archive.ImportedFrom(live, i.File.Header.ID):
	default:
		if fields := archive.Differences(o, live); len(fields) > 0 {
			s.problem("%s exists and differs in %s; an import overwrites nothing", key, strings.Join(fields, ", "))
		}
	}
	return nil
}

// surveyBinding checks whether the name of a Binding is free, or belongs to the same managed
// resource.
func (i *Import) surveyBinding(ctx context.Context, s *survey, b *unstructured.Unstructured) error {
	owner, exportedUID := archive.Owner(b)
	uid, exists := i.uids[owner]
	if !exists && !i.inFile(owner) {
		uid = exportedUID // its managed resource is gone: it only reserves the key
	}
	wanted := archive.ForOwner(b, uid)
	if !exists && archive.IsNamedByUID(wanted) && i.inFile(owner) {
		s.findings = append(s.findings, finding{b, create})
		return nil
	}
	live, err := i.get(ctx, bindingKind, "", wanted.GetName())
	if err != nil && !isUnserved(err) {
		return err
	}
	if live == nil {
		s.findings = append(s.findings, finding{b, create})
		return nil
	}
	s.findings = append(s.findings, finding{b, keep})
	if why := bindingConflict(live, wanted, uid); why != "" {
		s.problem("%s: %s", object.KeyOf(b), why)
	}
	return nil
}

func (i *Import) inFile(key object.Key) bool {
	for _, o := range i.File.Sections[archive.Managed] {
		if object.KeyOf(o) == key {
			return true
		}
	}
	return false
}

// bindingConflict returns why an existing Binding conflicts with the wanted one; empty if it does not.
func bindingConflict(live, wanted *unstructured.Unstructured, uid types.UID) string {
	liveOwner, liveUID := archive.Owner(live)
	owner, _ := archive.Owner(wanted)
	switch {
	case liveOwner != owner:
		return fmt.Sprintf("the key of the external resource of %s is reserved by %s", owner, liveOwner)
	case liveUID != uid:
		return fmt.Sprintf("the key of the external resource of %s is reserved by an earlier object of the same name, in phase %s: wait until its deletion ends", owner, archive.Phase(live))
	case !archive.SameExternal(live, wanted):
		return fmt.Sprintf("%s is bound to another external resource", owner)
	}
	return ""
}
