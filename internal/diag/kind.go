package diag

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// NeverServed is the problem of a document with a kind that is never served, with the apiVersion or the kind that may have been meant.
func NeverServed(document object.Path, gvk schema.GroupVersionKind, kind object.KindInfo) Diagnostic {
	d := Diagnostic{Path: document.Field("kind"), Problem: fmt.Sprintf("no matches for kind %q in version %q", gvk.Kind, gvk.GroupVersion())}
	if len(kind.Versions) > 0 {
		d.Path, d.Nearest = document.Field("apiVersion"), kind.Versions[0]
		return d
	}
	d.Nearest = Nearest(gvk.Kind, kind.Siblings)
	return d
}
