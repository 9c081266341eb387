package object

import (
	"slices"
	"strings"
)

// ownGroups are the API groups with kinds of Espalier and of its providers, besides kro.run, which is the default for kinds of definitions.
var ownGroups = []string{
	"espalier.dev", "internal.kro.run", "aws.espalier.dev", "postgresql.espalier.dev", "sandbox.espalier.dev",
	"apiextensions.crossplane.io", "ops.crossplane.io", "pkg.crossplane.io", "protection.crossplane.io",
}

// IsOwnGroup says whether an API group is one of Espalier's own. No definition can have its kind there: whoever writes objects
// of these groups may be trusted as their installer is, and a kind with the name of a provider's would keep that from being installed.
func IsOwnGroup(group string) bool {
	return slices.Contains(ownGroups, group) || strings.HasSuffix(group, ".aws.espalier.dev")
}
