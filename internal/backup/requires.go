package backup

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/espalier-dev/espalier/internal/backup/archive"
)

// requires are the kinds that have to be served where the export is imported: those that definitions
// and composites are composed of, that are served here, and that no exported instance installs. What
// waits for a kind here waits for it there as well, which is no reason to refuse the import.
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
				e.note("kind %s of %s isn't served here, and %s composes it: an import doesn't require it, and the nodes of this kind wait for it there as they do here", gvk.Kind, gvk.GroupVersion(), d)
			}
		case err != nil:
			return nil, err
		default:
			out = append(out, kind)
		}
	}
	return out, nil
}
