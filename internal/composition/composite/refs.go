package composite

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// refs returns the composite's resourceRefs: the desired children and those that are still there. One of the latter
// has no resource name if a desired child has that name, or if only the composite's reference, and no label, makes
// the object a child.
func (s *compositeState) refs(nodes []plan.Node) []xrd.ComposedRef {
	var refs []xrd.ComposedRef
	seen, desired := map[objectRef]bool{}, map[string]bool{}
	add := func(name string, o *unstructured.Unstructured, dependsOn []string) {
		ref := s.refOf(o)
		if seen[objectRefOf(ref)] {
			return
		}
		seen[objectRefOf(ref)] = true
		ref.ResourceName, ref.DependsOn = name, dependsOn
		refs = append(refs, ref)
	}
	for _, node := range nodes {
		if node.Refusal.Reason == "" && node.ID != secretNode {
			add(node.ID, node.Object, node.DependsOn)
			desired[node.ID] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.facts.Owned)) {
		for _, o := range s.owned(name) {
			resourceName := name
			if desired[name] || o.GetLabels()[v1alpha1.ApplySetPartOfLabel] == "" {
				resourceName = ""
			}
			add(resourceName, o, nil)
		}
	}
	slices.SortFunc(refs, func(a, b xrd.ComposedRef) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return refs
}

// sameRefs reports whether the composite's resourceRefs, as Crossplane wrote them, without resource names, already
// refer to the same objects, and all of these exist. The resource names, which the objects carry as annotations, are
// added with the next change of the references: adding only them would raise the composite's generation and make it
// unready until its status is written.
func (s *compositeState) sameRefs(refs []xrd.ComposedRef, nodes []plan.Node) bool {
	before := s.xr.ResourceRefs()
	versions := make(map[objectRef]string, len(before))
	for _, ref := range before {
		if ref.ResourceName != "" || len(ref.DependsOn) > 0 || ref.Name == "" {
			return false
		}
		versions[objectRefOf(ref)] = ref.APIVersion
	}
	same := len(before) == len(refs) && len(versions) == len(refs)
	for _, ref := range refs {
		same = same && versions[objectRefOf(ref)] == ref.APIVersion
	}
	exists := func(n plan.Node) bool { return n.ID == secretNode || n.Refusal.Reason != "" || n.Observed != nil }
	return same && !slices.ContainsFunc(nodes, func(n plan.Node) bool { return !exists(n) })
}

// refsByResource are the composite's resourceRefs by resource name. A reference without a
// resource name, as Crossplane writes it, is matched by kind: if exactly one desired
// resource of the kind doesn't exist, and exactly one reference of the kind has no object.
func (s *compositeState) refsByResource(d *pipeline.Desired) map[string]xrd.ComposedRef {
	out := map[string]xrd.ComposedRef{}
	existing := map[objectRef]bool{}
	for _, objects := range s.facts.Owned {
		for _, o := range objects {
			existing[objectRefOf(s.refOf(o))] = true
		}
	}
	unmatched := map[schema.GroupKind][]xrd.ComposedRef{}
	for _, ref := range s.xr.ResourceRefs() {
		switch kind := ref.GroupVersionKind().GroupKind(); {
		case ref.ResourceName != "":
			out[ref.ResourceName] = ref
		case ref.Name != "" && !existing[objectRefOf(ref)]:
			unmatched[kind] = append(unmatched[kind], ref)
		}
	}
	missing := map[schema.GroupKind][]string{}
	for name, r := range d.Resources {
		o := &unstructured.Unstructured{Object: r.Object}
		kind := o.GroupVersionKind().GroupKind()
		if _, known := out[name]; !known && len(s.facts.Owned[name]) == 0 {
			missing[kind] = append(missing[kind], name)
		}
	}
	for kind, names := range missing {
		if len(names) == 1 && len(unmatched[kind]) == 1 {
			out[names[0]] = unmatched[kind][0]
		}
	}
	return out
}
