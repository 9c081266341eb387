package workspace

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/apiextensions"
	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/pkg"
	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
	revisions "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

var own = sync.OnceValue(func() map[schema.GroupVersionKind]object.KindInfo {
	out := map[schema.GroupVersionKind]object.KindInfo{}
	for _, c := range ownDefinitions() {
		for _, v := range c.Spec.Versions {
			out[crd.GroupKind(c).WithVersion(v.Name)] = kindOf(c, v.Name)
		}
	}
	return out
})

// DefinitionsOfFiles returns the CustomResourceDefinitions in the files, and of the kinds that their definitions define, sorted by kind.
func (w *Workspace) DefinitionsOfFiles() []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, gk := range slices.SortedFunc(maps.Keys(w.crds), compareGroupKinds) {
		out = append(out, w.crds[gk])
	}
	return out
}

// OwnDefinitions returns the CustomResourceDefinitions of this program: of definitions, revisions, functions, usages and more. They are
// not to be changed.
func OwnDefinitions() []*apiextensionsv1.CustomResourceDefinition { return ownDefinitions() }

var ownDefinitions = sync.OnceValue(func() []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, files := range []fs.FS{v1alpha1.CRDs, v1alpha1.GraphCRDs, revisions.CRDs, apiextensions.CRDs, pkg.CRDs, protection.CRDs, espalier.CRDs} {
		names, _ := fs.Glob(files, "crds/*.yaml")
		for _, name := range names {
			raw, err := fs.ReadFile(files, name)
			c := &apiextensionsv1.CustomResourceDefinition{}
			if err == nil {
				err = yaml.Unmarshal(raw, c)
			}
			if err != nil {
				panic(fmt.Sprintf("%s: %v", name, err)) // they are part of the program
			}
			out = append(out, c)
		}
	}
	return out
})

func kindOf(c *apiextensionsv1.CustomResourceDefinition, version string) object.KindInfo {
	_, isServed := crd.Owner(c)
	return object.KindInfo{
		Schema: crd.SchemaOf(c, version), Namespaced: c.Spec.Scope == apiextensionsv1.NamespaceScoped,
		ServedByDefinition: isServed, NameRule: object.Subdomain,
	}
}

// Lookup returns what is known of a kind: from the files, from this program, from Kubernetes, and from the further source. False
// says that nothing is known; KindInfo.NeverServed then says that Kubernetes has its group version and not the kind, or that the kind exists
// under another name or in other versions.
func (w *Workspace) Lookup(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
	if kind, ok := w.kinds[gvk]; ok {
		return kind, true
	}
	if kind, ok := own()[gvk]; ok {
		return kind, true
	}
	kind, ok := builtin.Lookup(gvk)
	if ok || kind.NeverServed {
		return kind, ok
	}
	if w.options.Kinds != nil {
		if kind, ok := w.options.Kinds(gvk); ok || kind.NeverServed {
			return kind, ok
		}
	}
	return w.misnamed(gvk), false
}

// The kind has no version of that name, or its name is written otherwise: in the plural, or in other capitals. A group
// without a dot can only have kinds of Kubernetes, and one that it no longer has is looked for in the other groups.
func (w *Workspace) misnamed(gvk schema.GroupVersionKind) object.KindInfo {
	var out object.KindInfo
	for _, k := range w.Kinds() {
		isGroup := k.Group == gvk.Group || gvk.Group != "" && !strings.Contains(gvk.Group, ".") && !k.Own
		switch {
		case isGroup && k.Kind == gvk.Kind:
			out.Versions = append(out.Versions, k.GroupVersion().String())
		case k.GroupVersion() == gvk.GroupVersion() && (k.Names[0] == strings.ToLower(gvk.Kind) || strings.EqualFold(k.Kind, gvk.Kind)):
			out.Siblings = append(out.Siblings, k.Kind)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(w.kinds), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }) {
		if version := k.GroupVersion().String(); k.GroupKind() == gvk.GroupKind() && !slices.Contains(out.Versions, version) {
			out.Versions = append(out.Versions, version) // of an invalid definition
		}
	}
	out.NeverServed = len(out.Versions)+len(out.Siblings) > 0
	return out
}

// Kinds written like those of this program or of Kubernetes, or in a version that does not exist, are replaced by them,
// so everything else of such an object is checked. Each is an error. The files themselves do not change.
func (w *Workspace) corrected(files []*File) []*File {
	out := slices.Clone(files)
	for i, f := range out {
		for n, d := range f.documents {
			gvk := d.Object.GroupVersionKind()
			kind, known := w.Lookup(gvk)
			meant := kindMeant(gvk, kind)
			if known || meant == gvk {
				continue
			}
			w.add(d, Error, "", diag.List{diag.NeverServed("", gvk, kind)})
			if out[i] == f {
				out[i] = &File{Name: f.Name, documents: slices.Clone(f.documents), problems: f.problems}
			}
			o := &unstructured.Unstructured{Object: maps.Clone(d.Object.Object)}
			o.SetGroupVersionKind(meant)
			out[i].documents[n] = &Document{Document: d.Document, File: out[i], Object: o}
		}
	}
	return out
}

func kindMeant(gvk schema.GroupVersionKind, kind object.KindInfo) schema.GroupVersionKind {
	if len(kind.Versions) > 0 {
		return schema.FromAPIVersionAndKind(kind.Versions[0], gvk.Kind)
	}
	gvk.Kind = cmp.Or(diag.Nearest(gvk.Kind, kind.Siblings), gvk.Kind)
	return gvk
}

// NamespaceOf returns the namespace that an object of a file gets in a cluster: none if its kind is cluster-scoped, whatever the file
// says, or else the given one if the file has none.
func (w *Workspace) NamespaceOf(d *Document, otherwise string) string {
	if kind, known := w.Lookup(d.Object.GroupVersionKind()); known && !kind.Namespaced {
		return ""
	}
	return cmp.Or(d.Object.GetNamespace(), otherwise)
}

func (w *Workspace) lookUp(used []schema.GroupVersionKind) graph.Kinds {
	out := graph.Kinds{}
	for _, gvk := range used {
		if kind, known := w.Lookup(gvk); known || kind.NeverServed {
			out[gvk] = kind
		}
	}
	return out
}

func (w *Workspace) addCRDs() {
	for _, d := range w.Documents(crd.Kind.GroupKind()) {
		c, problems := checkCRD(d.Object)
		w.add(d, Error, "", problems)
		if c != nil {
			w.addCRD(c)
		}
	}
}

func (w *Workspace) addCRD(c *apiextensionsv1.CustomResourceDefinition) {
	w.crds[crd.GroupKind(c)] = c
	w.addKinds(c)
}

// Only served versions are added.
func (w *Workspace) addKinds(c *apiextensionsv1.CustomResourceDefinition) {
	gk := crd.GroupKind(c)
	for _, v := range c.Spec.Versions {
		if v.Served {
			w.kinds[gk.WithVersion(v.Name)] = kindOf(c, v.Name)
		}
	}
}
