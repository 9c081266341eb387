package workspace

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
)

var usageKind = protection.GroupVersion.WithKind(protection.UsageKind).GroupKind()

// checkUsage reports a Usage of an object outside its namespace, which protects nothing, and what to write instead.
func (w *Workspace) checkUsage(d *Document) {
	if d.Object.GroupVersionKind().GroupKind() != usageKind {
		return
	}
	const rule = ": a Usage names objects of its own namespace only; "
	if w.isClusterScoped(d, "of") {
		w.addf(d, Error, "spec", "spec.of is cluster-scoped%screate a ClusterUsage", rule)
	} else if namespace := usedNamespace(d.Object); namespace != "" && namespace != d.Object.GetNamespace() {
		w.addf(d, Error, "spec", "spec.of is in namespace %s%screate the Usage there (metadata.namespace: %s), without a namespace in spec.of", namespace,
			rule, namespace)
	}
	if w.isClusterScoped(d, "by") {
		w.addf(d, Error, "spec.by", "is cluster-scoped%sleave spec.by out and say why in spec.reason", rule)
	}
}

// It is "" for the Usage's own namespace.
func usedNamespace(o *unstructured.Unstructured) string {
	for _, by := range []string{"resourceRef", "resourceSelector"} {
		if namespace, _, _ := unstructured.NestedString(o.Object, "spec", "of", by, "namespace"); namespace != "" {
			return namespace
		}
	}
	return ""
}

func (w *Workspace) isClusterScoped(d *Document, field string) bool {
	apiVersion, _, _ := unstructured.NestedString(d.Object.Object, "spec", field, "apiVersion")
	name, _, _ := unstructured.NestedString(d.Object.Object, "spec", field, "kind")
	kind, known := w.Lookup(schema.FromAPIVersionAndKind(apiVersion, name))
	return known && !kind.Namespaced
}
