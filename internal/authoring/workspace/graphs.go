package workspace

import (
	"cmp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/object"
)

var graphKinds = []schema.GroupKind{
	v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind).GroupKind(),
	v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGroupKind).GroupKind(),
}

type pendingGraph struct {
	document *Document
	spec     *v1alpha1.DefinitionSpec
	problems diag.List
	kind     schema.GroupVersionKind
	uses     []schema.GroupVersionKind
}

// Each definition is compiled after the definitions of the kinds that it uses.
func (w *Workspace) compileGraphs() {
	pending := w.readGraphs()
	for len(pending) > 0 {
		next := slices.IndexFunc(pending, func(p *pendingGraph) bool {
			return !slices.ContainsFunc(pending, func(other *pendingGraph) bool { return other != p && slices.Contains(p.uses, other.kind) })
		})
		// Definitions that use each other's kinds: the first one is compiled without the schemas of the rest.
		p := pending[max(next, 0)]
		pending = slices.DeleteFunc(pending, func(other *pendingGraph) bool { return other == p })
		w.compileGraph(p)
	}
	slices.SortStableFunc(w.graphs, func(a, b *Graph) int { return w.indexOf(a.Definition) - w.indexOf(b.Definition) })
}

func (w *Workspace) indexOf(d *Document) int { return slices.Index(w.Documents(graphKinds...), d) }

func (w *Workspace) readGraphs() []*pendingGraph {
	var out []*pendingGraph
	for _, d := range w.Documents(graphKinds...) {
		raw, isObject := d.Object.Object["spec"].(map[string]any)
		if !isObject {
			w.addf(d, Error, "spec", "is required")
			continue
		}
		p := &pendingGraph{document: d}
		p.spec, p.problems = graph.Read(raw)
		p.problems.Add(graph.CheckInstanceOverrides(p.spec)...)
		if named := p.spec.ServiceAccount; named != nil {
			if problem := graph.CheckServiceAccount(*named, namespaceOf(d, *named)); problem != "" {
				p.problems.Addf("spec.serviceAccount", "%s", problem)
			}
		}
		w.warnOfReservedIDs(p)
		p.uses = graph.UsedKinds(p.spec)
		if p.spec.Schema != nil {
			p.kind = p.spec.Schema.InstanceKind()
		}
		out = append(out, p)
	}
	return out
}

// soonReserved are ids that kro reserves from version 0.10 on.
var soonReserved = []string{"graphengine"}

// A definition with such ids is served here, and not by newer versions of kro.
func (w *Workspace) warnOfReservedIDs(p *pendingGraph) {
	for i, r := range p.spec.Resources {
		if slices.Contains(soonReserved, r.ID) {
			w.addf(p.document, Warning, object.Path("spec.resources").Index(i).Field("id"),
				"kro reserves the id %q from version 0.10 on: choose another if the definition may be served by kro", r.ID)
		}
	}
}

// It is empty for a cluster-scoped definition. One without a namespace may be applied to the namespace of the account
// that it names.
func namespaceOf(d *Document, named v1alpha1.ServiceAccount) string {
	if d.Object.GetKind() != v1alpha1.ResourceGroupKind {
		return ""
	}
	return cmp.Or(d.Object.GetNamespace(), named.Namespace, metav1.NamespaceDefault)
}

func (w *Workspace) compileGraph(p *pendingGraph) {
	kinds := w.lookUp(p.uses)
	w.checkTemplates(p, kinds)
	g, problems := graph.Compile(p.spec, kinds, graph.WithSecretOutputs(w.options.SecretOutputs))
	problems.Add(p.problems...)
	w.add(p.document, Error, "", problems.Sorted())
	if g == nil || len(problems) > 0 {
		w.addKindOfInvalid(p, kinds)
		return
	}
	w.add(p.document, Warning, "", g.SecretOutputs)
	w.add(p.document, Warning, "", g.Warnings)
	one := &Graph{Definition: p.document, Spec: p.spec, Graph: g, CRD: w.crdOf(p, g)}
	w.checkGenerated(p.document, one.CRD, func(generated string) object.Path { return originInGraph(generated, p.spec.Schema, one.CRD) })
	w.checkOwner(p.document, one.CRD, "spec.schema.kind")
	w.warnOfGroup(p.document, one.Kind.Group)
	w.graphs = append(w.graphs, one)
	w.addCRD(one.CRD)
}

func (w *Workspace) crdOf(p *pendingGraph, g *graph.Graph) *apiextensionsv1.CustomResourceDefinition {
	owner := object.Definition{Name: p.document.Object.GetName(), Namespace: w.NamespaceOf(p.document, metav1.NamespaceDefault)}
	return kind.For(g, p.spec.Schema, owner, kind.Options{Version: w.options.Version})
}

// It adds what is known of the kind of a definition with errors, so its instances and the definitions that use it are
// checked as far as possible.
func (w *Workspace) addKindOfInvalid(p *pendingGraph, kinds graph.Kinds) {
	if _, known := w.Lookup(p.kind); known || p.kind.Kind == "" {
		return
	}
	if g := graph.CompilePartially(p.spec, kinds).WithoutStatus(p.problems); g != nil {
		w.addKinds(w.crdOf(p, g))
		return
	}
	w.kinds[p.kind] = object.KindInfo{Namespaced: p.spec.Schema.Scope != v1alpha1.ClusterScope, ServedByDefinition: true, NameRule: object.Subdomain}
}

// It reports uses of kinds with an unknown schema, and required fields that templates lack. That needs no graph, so an
// invalid definition has these findings together with its errors.
func (w *Workspace) checkTemplates(p *pendingGraph, kinds graph.Kinds) {
	resources, _ := p.document.Object.Object["spec"].(map[string]any)["resources"].([]any)
	for i, r := range resources {
		resource, _ := r.(map[string]any)
		w.checkTemplate(p.document, resource, object.Path("spec.resources").Index(i), []string{"template", "externalRef"}, func(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
			kind, known := kinds[gvk]
			return kind, known || gvk == p.kind || !slices.Contains(p.uses, gvk)
		})
	}
}

func (w *Workspace) warnOfUnknownKind(d *Document, document object.Path, gvk schema.GroupVersionKind) {
	w.addf(d, Warning, document.Field("kind"), "%s of %s is unknown here, so its fields are not checked; add its CustomResourceDefinition",
		gvk.Kind, gvk.GroupVersion())
}
