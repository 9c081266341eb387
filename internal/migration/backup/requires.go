package backup

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
)

// requires returns the kinds that have to be served before the import: those of the resources of
// definitions and composites, unless an exported instance installs them. A kind that is not served
// here is not required: its nodes wait for it already.
func (e *Export) requires() ([]archive.Kind, error) {
	var out []archive.Kind
	for _, kind := range archive.Requires(e.definitions, e.knownKinds()...) {
		gvk := kind.GVK()
		if _, installed := e.instances[e.kinds.installedBy[gvk.GroupKind()]]; installed {
			continue
		}
		_, err := e.objects(gvk, "")
		switch {
		case meta.IsNoMatchError(err):
			for _, d := range archive.Composing(e.definitions, gvk) {
				e.note("no matches for kind %q in version %q, which %s composes: an import does not require it, and its nodes wait for it after the import, too",
					gvk.Kind, gvk.GroupVersion(), d)
			}
		case err != nil:
			return nil, err
		default:
			out = append(out, kind)
		}
	}
	return out, nil
}
