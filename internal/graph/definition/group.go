package definition

import (
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// NamespacedGroupsField is the field of the configuration file for Config.NamespacedGroups.
const NamespacedGroupsField = "resourceGroups.apiGroups"

// checkGroup adds a problem if the definitions of a namespace cannot define kinds in the API group of this one.
func (v *session) checkGroup() {
	if group := v.source.kind.Group; v.owner.Namespace != "" && object.GroupProblem(group) == "" && !allowsGroup(v.NamespacedGroups, group) {
		v.result.problems.Addf("spec.schema.group", "ResourceGroups define kinds in %s only, not in %s; an administrator can allow the group with %s",
			strings.Join(v.NamespacedGroups, ", "), group, NamespacedGroupsField)
	}
}

// allowsGroup reports whether one of the patterns matches an API group: its name, *.example.com for all below example.com, or *
// for all. Without patterns, all match.
func allowsGroup(patterns []string, group string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		suffix, isWildcard := strings.CutPrefix(pattern, "*")
		return pattern == group || isWildcard && strings.HasSuffix(group, suffix)
	})
}
