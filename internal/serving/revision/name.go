package revision

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// maxNameLength is the API server's limit of an object's name.
const maxNameLength = 253

// Name is the name of a revision: shop-r00001. A ResourceGroup's is prefixed with the namespace and has another letter,
// team.shop-g00001, so it never equals a ResourceGraphDefinition's. A name that is too long is truncated, and a digest
// of the full name keeps it unique.
func Name(of object.Definition, number int64) string {
	name, suffix := of.Name, fmt.Sprintf("-r%05d", number)
	if of.Namespace != "" {
		name, suffix = of.Namespace+"."+of.Name, fmt.Sprintf("-g%05d", number)
	}
	if len(name)+len(suffix) <= maxNameLength {
		return name + suffix
	}
	suffix += "-" + object.Digest(name)[:8]
	return strings.TrimRight(name[:maxNameLength-len(suffix)], ".-") + suffix
}
