package revision

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// longestName is what the API server takes for an object's name.
const longestName = 253

// Name is what a revision is called: shop-r00001. That of a ResourceGroup has the
// namespace in front and another letter, team.shop-g00001, so that it is never that of a
// ResourceGraphDefinition, whatever the two are called. Where there is no room for the
// name it is cut, and a digest of all of it keeps two apart.
func Name(of object.Definition, number int64) string {
	name, suffix := of.Name, fmt.Sprintf("-r%05d", number)
	if of.Namespace != "" {
		name, suffix = of.Namespace+"."+of.Name, fmt.Sprintf("-g%05d", number)
	}
	if len(name)+len(suffix) <= longestName {
		return name + suffix
	}
	suffix += "-" + object.Digest(name)[:8]
	return strings.TrimRight(name[:longestName-len(suffix)], ".-") + suffix
}
