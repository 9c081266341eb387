package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
)

// survey is the result of checking a cluster before an import: what to do about each object, and
// which problems prevent the import.
type survey struct {
	findings []Step
	problems []string
	accounts []archive.Account
	// target are the kinds that the cluster serves; namespaces are those that exist.
	target     map[schema.GroupKind]archive.TargetKind
	namespaces map[string]bool
	// reserved are the cluster's Bindings, by what they reserve.
	reserved map[string][]*unstructured.Unstructured
	// unchecked counts the creations that the API server could not check.
	unchecked int
}

func (s *survey) add(verb Verb, section archive.Section, o *unstructured.Unstructured) {
	s.findings = append(s.findings, Step{Verb: verb, Key: object.KeyOf(o), Detail: detail(section, o), section: section, object: o})
}

func (s *survey) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// survey reads all objects that an import would write, and collects all problems. An archive
// with contents that no export has is refused before the cluster is asked about them.
func (i *Import) survey(ctx context.Context) (*survey, error) {
	s := &survey{problems: i.File.Check(), namespaces: map[string]bool{}}
	if len(s.problems) > 0 {
		return s, nil
	}
	if err := i.surveyKinds(ctx, s); err != nil {
		return nil, err
	}
	s.problems = append(s.problems, i.File.Refusals(s.target)...)
	if err := i.surveyAccounts(ctx, s); err != nil {
		return nil, err
	}
	if interrupted, err := i.surveyHolds(ctx, s); err != nil || interrupted {
		return s, err
	}
	if err := i.surveyReserved(ctx, s); err != nil {
		return nil, err
	}
	for _, section := range archive.AllSections {
		for _, o := range i.File.Sections[section] {
			if err := i.surveyOne(ctx, s, section, o); err != nil {
				return nil, err
			}
		}
	}
	if err := i.surveyRevisions(ctx, s); err != nil {
		return nil, err
	}
	if err := i.surveySignatures(ctx, s); err != nil {
		return nil, err
	}
	if len(s.problems) > 0 {
		return s, nil
	}
	for _, step := range s.findings {
		if step.Verb != Create {
			continue
		}
		if err := i.tryCreate(ctx, s, step); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// surveyAccounts checks the accounts whose permissions the archive uses: the importing user must
// be allowed to use each of them, as for a definition.
func (i *Import) surveyAccounts(ctx context.Context, s *survey) error {
	accounts, problems := i.File.Accounts()
	s.accounts, s.problems = accounts, slices.Concat(s.problems, problems, archive.AccountProblems(accounts, i.AllowedAccounts))
	for _, a := range accounts {
		if !a.NeedsUse {
			continue
		}
		allowed, err := i.mayUse(ctx, a.Namespace, a.Name)
		if err != nil {
			return err
		}
		if !allowed {
			s.problem("you are not allowed to use %s: grant the verb use or impersonate on it", a.Describe())
		}
	}
	return nil
}

// surveyReserved reads what the cluster's Bindings reserve.
func (i *Import) surveyReserved(ctx context.Context, s *survey) error {
	if len(i.File.Sections[archive.Bindings]) == 0 {
		return nil
	}
	reset := func() { s.reserved = map[string][]*unstructured.Unstructured{} }
	reset()
	err := i.each(ctx, bindingKind, reset, func(b *unstructured.Unstructured) error {
		for _, what := range archive.Reserves(b) {
			s.reserved[what] = append(s.reserved[what], b)
		}
		return nil
	})
	if isUnserved(err) {
		return nil // surveyKinds reports it
	}
	return err
}

// surveyHolds looks for imports that are in progress, or were interrupted: this one, or another.
func (i *Import) surveyHolds(ctx context.Context, s *survey) (interrupted bool, err error) {
	err = i.each(ctx, holdKind, func() {}, func(h *unstructured.Unstructured) error {
		of, _, _ := unstructured.NestedString(h.Object, "spec", "import")
		switch of {
		case i.File.Header.ID:
			interrupted = true
			s.problem("this import is in progress or was interrupted, see Hold %s: delete what it has created with --abort, and run it again", h.GetName())
		case "":
			i.Progress("Hold %s exists, too: the controllers stay suspended until it is deleted", h.GetName())
		default:
			s.problem("another import is in progress or was interrupted, see Hold %s: abort it with --abort", h.GetName())
		}
		return nil
	})
	if isUnserved(err) {
		return interrupted, nil // surveyKinds reports it
	}
	return interrupted, err
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
	target, installed, err := i.targetKinds(ctx)
	if err != nil {
		return err
	}
	s.target = target
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

// targetKinds returns the kinds that the cluster serves: those with a CustomResourceDefinition,
// and those of the archive without one. For a moment, a kind of a definition can be served before its
// CustomResourceDefinition was listed, or after its deletion: only one that stays without belongs to
// another program.
func (i *Import) targetKinds(ctx context.Context) (target map[schema.GroupKind]archive.TargetKind, installed map[schema.GroupKind]bool, err error) {
	for deadline := time.Now().Add(settlingTimeout); ; {
		target, installed, undefined, err := i.readTargetKinds(ctx)
		if err != nil || !undefined || time.Now().After(deadline) {
			return target, installed, err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return nil, nil, err
		}
	}
}

// settlingTimeout is how long the kind of a definition is served without a CustomResourceDefinition
// until it counts as one of another program.
const settlingTimeout = time.Second

// readTargetKinds reads the kinds that the cluster serves; undefined reports whether one that a
// definition of the archive defines has no CustomResourceDefinition.
func (i *Import) readTargetKinds(ctx context.Context) (target map[schema.GroupKind]archive.TargetKind, installed map[schema.GroupKind]bool,
	undefined bool, err error) {
	served := map[schema.GroupKind]schema.GroupVersionKind{}
	for _, o := range i.File.Objects() {
		gvk := o.GroupVersionKind()
		if _, known := served[gvk.GroupKind()]; known {
			continue
		}
		switch _, err := i.objects(gvk, ""); {
		case err == nil:
			served[gvk.GroupKind()] = gvk
		case !isUnserved(err):
			return nil, nil, false, err
		}
	}
	reset := func() {
		target, installed = map[schema.GroupKind]archive.TargetKind{}, map[schema.GroupKind]bool{}
	}
	reset()
	err = i.each(ctx, crdKind, reset, func(o *unstructured.Unstructured) error {
		var c apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err != nil {
			return fmt.Errorf("decode CustomResourceDefinition %s: %w", o.GetName(), err)
		}
		gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
		target[gk] = targetKind(&c)
		installed[gk] = c.DeletionTimestamp == nil
		return nil
	})
	if err != nil {
		return nil, nil, false, err
	}
	defined := archive.Defined(i.File.Sections[archive.Definitions])
	for gk, gvk := range served {
		if _, custom := target[gk]; custom {
			continue
		}
		if gone, err := i.isGone(ctx, gvk); err != nil {
			return nil, nil, false, err
		} else if !gone {
			target[gk] = archive.TargetKind{}
			undefined = undefined || defined[gk]
		}
	}
	return target, installed, undefined, nil
}

// isGone reports whether a kind that discovery shows is not served any more: for a moment, discovery
// also shows kinds of which the CustomResourceDefinition has been deleted.
func (i *Import) isGone(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	r, err := i.objects(gvk, "")
	if err == nil {
		_, err = r.List(ctx, metav1.ListOptions{Limit: 1})
	}
	switch {
	case err == nil, apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return false, nil
	case isUnserved(err):
		return true, nil
	}
	return false, fmt.Errorf("list %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
}

func targetKind(c *apiextensionsv1.CustomResourceDefinition) archive.TargetKind {
	if isComposites(c) {
		by := object.Key{Group: compositeDefinitionKind.Group, Kind: compositeDefinitionKind.Kind, Name: metav1.GetControllerOfNoCopy(c).Name}
		return archive.TargetKind{Custom: true, Definition: by}
	}
	owner, owned := crd.Owner(c)
	if !owned {
		return archive.TargetKind{Custom: true, Managed: slices.Contains(c.Spec.Names.Categories, "managed")}
	}
	by := object.Key{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.ResourceGraphDefinitionKind, Namespace: owner.Namespace, Name: owner.Name}
	if owner.Namespace != "" {
		by.Kind = v1alpha1.ResourceGroupKind
	}
	return archive.TargetKind{Custom: true, Definition: by}
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

// surveyOne decides what to do about an object: to create it, or to keep a namespace that exists. Another object that
// exists is a problem.
func (i *Import) surveyOne(ctx context.Context, s *survey, section archive.Section, o *unstructured.Unstructured) error {
	if section == archive.Bindings {
		return i.surveyBinding(ctx, s, o)
	}
	live, err := i.get(ctx, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	if err != nil && !isUnserved(err) {
		return err
	}
	switch {
	case live == nil:
		s.add(Create, section, o)
	case live.GetDeletionTimestamp() != nil:
		s.problem("%s is being deleted: wait until it is gone", object.KeyOf(o))
	case section == archive.Namespaces:
		s.namespaces[o.GetName()] = true
		s.add(Keep, section, o)
	default:
		s.problem("%s exists; an import overwrites nothing", object.KeyOf(o))
	}
	return nil
}

// surveyBinding checks whether the name and the external resource of a Binding are free.
func (i *Import) surveyBinding(ctx context.Context, s *survey, b *unstructured.Unstructured) error {
	s.add(Create, archive.Bindings, b)
	owner, uid := archive.Owner(b)
	if !i.inFile(owner) { // its managed resource is gone: it only reserves the key
		exists, err := i.ownerExists(ctx, owner, uid)
		if err != nil {
			return err
		}
		if exists {
			s.problem("%s: %s is not in the export and exists: an import binds no existing managed resource", object.KeyOf(b), owner)
		}
	}
	live, err := i.get(ctx, bindingKind, "", b.GetName())
	if err != nil && !isUnserved(err) {
		return err
	}
	if live != nil {
		by, _ := archive.Owner(live)
		s.problem("%s exists, of %s in phase %s; an import overwrites nothing", object.KeyOf(b), by, archive.Phase(live))
	}
	for _, what := range archive.Reserves(b) {
		for _, live := range s.reserved[what] {
			if by, _ := archive.Owner(live); live.GetName() != b.GetName() && archive.Phase(live) != espalier.BindingReleased {
				s.problem("%s: %s is reserved by %s", object.KeyOf(b), what, by)
			}
		}
	}
	return nil
}

// surveyRevisions looks for revisions of the archive's compositions and definitions that are left from former ones:
// instances would follow them.
func (i *Import) surveyRevisions(ctx context.Context, s *survey) error {
	if len(i.File.Sections[archive.Revisions]) == 0 {
		return nil
	}
	revised, inArchive := map[object.Key]bool{}, map[object.Key]bool{}
	for _, r := range i.File.Sections[archive.Revisions] {
		revised[archive.RevisedBy(r)], inArchive[object.KeyOf(r)] = true, true
	}
	for _, gvk := range []schema.GroupVersionKind{revisionKind, graphRevisionKind} {
		found, err := i.allIfServed(ctx, gvk)
		if err != nil {
			return err
		}
		for _, live := range found {
			if of := archive.RevisedBy(live); revised[of] && !inArchive[object.KeyOf(live)] {
				s.problem("%s of %s exists; delete it first, because instances would follow it", object.KeyOf(live), of)
			}
		}
	}
	return nil
}

// ownerExists reports whether the managed resource of a Binding, which the archive does not contain, exists.
func (i *Import) ownerExists(ctx context.Context, owner object.Key, uid types.UID) (bool, error) {
	kinds := map[schema.GroupKind]schema.GroupVersionKind{}
	for _, b := range i.File.Sections[archive.Bindings] {
		gvk := archive.OwnerKind(b)
		kinds[gvk.GroupKind()] = gvk
	}
	live, err := i.get(ctx, kinds[owner.GroupKind()], owner.Namespace, owner.Name)
	if err != nil && !isUnserved(err) {
		return false, err
	}
	return live != nil && live.GetUID() == uid, nil
}

func (i *Import) inFile(key object.Key) bool { return i.managed()[key] }

// managed are the archive's managed resources.
func (i *Import) managed() map[object.Key]bool {
	if i.inArchive == nil {
		i.inArchive = map[object.Key]bool{}
		for _, o := range i.File.Sections[archive.Managed] {
			i.inArchive[object.KeyOf(o)] = true
		}
	}
	return i.inArchive
}
