package workspace

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// Kind is a kind with the names that people use for it.
type Kind struct {
	schema.GroupVersionKind
	// Names are the plural, the singular and the short names, in lower case and this order.
	Names []string
	// Own says that the files define the kind, and Definition that users define further kinds in it.
	Own, Definition bool
}

// Kinds returns the kinds of the files, of this program and of Kubernetes; each served version, the preferred one
// first. Kinds of an own group come before Kubernetes' kinds.
func (w *Workspace) Kinds() []Kind {
	var out []Kind
	for _, gk := range slices.SortedFunc(maps.Keys(w.crds), compareGroupKinds) {
		out = append(out, kindsOf(w.crds[gk], true)...)
	}
	for _, c := range ownDefinitions() {
		out = append(out, kindsOf(c, false)...)
	}
	kubernetes := slices.SortedStableFunc(slices.Values(builtin.Kinds()), func(a, b builtin.Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	for _, k := range kubernetes {
		out = append(out, Kind{GroupVersionKind: k.GroupVersionKind(), Names: append([]string{strings.ToLower(k.Plural), strings.ToLower(k.Kind)}, k.ShortNames...)})
	}
	return out
}

func compareGroupKinds(a, b schema.GroupKind) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
}

// The newest version comes first.
func kindsOf(c *apiextensionsv1.CustomResourceDefinition, own bool) []Kind {
	names := append([]string{c.Spec.Names.Plural, cmp.Or(c.Spec.Names.Singular, strings.ToLower(c.Spec.Names.Kind))}, c.Spec.Names.ShortNames...)
	var out []Kind
	for _, v := range c.Spec.Versions {
		if v.Served {
			out = append(out, Kind{GroupVersionKind: crd.GroupKind(c).WithVersion(v.Name), Names: names, Own: own, Definition: !own && isDefinition(crd.GroupKind(c))})
		}
	}
	slices.SortStableFunc(out, func(a, b Kind) int { return version.CompareKubeAwareVersionStrings(b.Version, a.Version) })
	return out
}

func isDefinition(gk schema.GroupKind) bool {
	return slices.Contains(graphKinds, gk) || gk == CompositeDefinitionKind || gk == CompositionKind
}

// Find returns the kinds that a name may mean: a kind, plural, singular or short name, with or without .GROUP or
// .VERSION.GROUP behind it. Of a kind with several versions, it is the preferred one unless a version is named. A kind
// of the files goes first, and then one of the core group, as with kubectl.
func (w *Workspace) Find(name string) []Kind {
	out := w.find(strings.ToLower(name))
	for _, isPreferred := range []func(Kind) bool{func(k Kind) bool { return k.Own }, func(k Kind) bool { return k.Group == "" }} {
		if i := slices.IndexFunc(out, isPreferred); i >= 0 && !strings.Contains(name, ".") {
			return out[i : i+1]
		}
	}
	return out
}

func (w *Workspace) find(name string) []Kind {
	var out []Kind
	for _, k := range w.Kinds() {
		for _, n := range append([]string{strings.ToLower(k.Kind)}, k.Names...) {
			known := slices.ContainsFunc(out, func(o Kind) bool { return o.GroupKind() == k.GroupKind() })
			switch name {
			case n, n + "." + k.Group:
				if !known {
					out = append(out, k)
				}
			case n + "." + k.Version + "." + k.Group, n + "." + k.Version:
				if !slices.ContainsFunc(out, func(o Kind) bool { return o.GroupVersionKind == k.GroupVersionKind }) {
					out = append(out, k)
				}
			}
		}
	}
	return out
}

// MetadataSchema returns the schema of metadata, which is the same for all kinds.
func (w *Workspace) MetadataSchema() *spec.Schema {
	kind, _ := builtin.Lookup(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	metadata := kind.Schema.Properties["metadata"]
	return &metadata
}
