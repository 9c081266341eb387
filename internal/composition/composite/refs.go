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

// refs refer to what the composite is composed of: what is wanted, and what is there
// still. The latter has no name where a wanted one takes its place, or where nothing but
// the reference tells that it is there.
func (s *sitting) refs(nodes []plan.Node) []xrd.ComposedRef {
	var refs []xrd.ComposedRef
	seen, taken := map[where]bool{}, map[string]bool{}
	add := func(name string, o *unstructured.Unstructured, dependsOn []string) {
		ref := s.refTo(o)
		if seen[whereIs(ref)] {
			return
		}
		seen[whereIs(ref)] = true
		ref.ResourceName, ref.DependsOn = name, dependsOn
		refs = append(refs, ref)
	}
	for _, node := range nodes {
		if node.Refused.Reason == "" && node.ID != secretNode {
			add(node.ID, node.Object, node.DependsOn)
			taken[node.ID] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.facts.Owned)) {
		for _, o := range s.owned(name) {
			called := name
			if taken[name] || o.GetLabels()[v1alpha1.ApplySetPartOfLabel] == "" {
				called = ""
			}
			add(called, o, nil)
		}
	}
	slices.SortFunc(refs, func(a, b xrd.ComposedRef) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return refs
}

// refersTo says whether the composite refers to the same objects already, as another
// implementation writes it, and all of them are there. The names that they have in the
// composition, which they carry themselves, are added with the next reference that changes:
// for them alone the generation of a composite doesn't rise, which would make it unready
// until its status is written.
func (s *sitting) refersTo(refs []xrd.ComposedRef, nodes []plan.Node) bool {
	before := s.xr.Composed()
	has := make(map[where]string, len(before))
	for _, ref := range before {
		if ref.ResourceName != "" || len(ref.DependsOn) > 0 || ref.Name == "" {
			return false
		}
		has[whereIs(ref)] = ref.APIVersion
	}
	same := len(before) == len(refs) && len(has) == len(refs)
	for _, ref := range refs {
		same = same && has[whereIs(ref)] == ref.APIVersion
	}
	there := func(n plan.Node) bool { return n.ID == secretNode || n.Refused.Reason != "" || n.Observed != nil }
	return same && !slices.ContainsFunc(nodes, func(n plan.Node) bool { return !there(n) })
}

// referred are the references of the composite by the names of resources. One of another
// implementation's, which tells no name, is that of the only resource of its kind that isn't
// there, if it is the only one to no object that is.
func (s *sitting) referred(d *pipeline.Desired) map[string]xrd.ComposedRef {
	out := map[string]xrd.ComposedRef{}
	there := map[where]bool{}
	for _, objects := range s.facts.Owned {
		for _, o := range objects {
			there[whereIs(s.refTo(o))] = true
		}
	}
	free := map[schema.GroupKind][]xrd.ComposedRef{}
	for _, ref := range s.xr.Composed() {
		switch kind := ref.GroupVersionKind().GroupKind(); {
		case ref.ResourceName != "":
			out[ref.ResourceName] = ref
		case ref.Name != "" && !there[whereIs(ref)]:
			free[kind] = append(free[kind], ref)
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
		if len(names) == 1 && len(free[kind]) == 1 {
			out[names[0]] = free[kind][0]
		}
	}
	return out
}
