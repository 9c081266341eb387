package cloudcontrol

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// notUpdatable is in the messages of handlers that refuse a change with a code that does not say why.
var notUpdatable = regexp.MustCompile(`(?i)\bnot updatable\b|create-?only propert|requires? replacement|cannot be (updated|modified|changed) (after|once)|\bimmutable\b`)

func isNotUpdatable(code, message string) bool {
	if found := handlerCode.FindStringSubmatch(message); found != nil {
		code = found[1]
	}
	return strings.HasPrefix(code, "NotUpdatable") || strings.HasPrefix(code, "InvalidRequest") && notUpdatable.MatchString(message)
}

// conditional are the properties that AWS changes only in some cases.
func needsReplacement(conditional []string) string {
	const advice = "Set it back in spec.forProvider, or delete this object and create another one. AWS says: "
	if len(conditional) == 0 {
		return "this change needs a new resource. " + advice
	}
	return "this change needs a new resource: AWS changes " + strings.Join(conditional, ", ") +
		" of an existing one only in some cases, and this is none of them. " + advice
}

// maxConditional bounds how many properties a message names.
const maxConditional = 5

// AWS changes these properties only in some cases.
func conditionalChanges(t *resourcetype.Type, patch string) []string {
	var operations []model.Operation
	if len(t.ConditionalCreateOnlyProperties) == 0 || json.Unmarshal([]byte(patch), &operations) != nil {
		return nil
	}
	var changed []resourcetype.Path
	for _, o := range operations {
		var path resourcetype.Path
		for _, step := range strings.Split(strings.TrimPrefix(o.Path, "/"), "/") {
			path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
		changed = addPaths(changed, withoutItems(path), o.Value)
	}
	var out []string
	for _, path := range t.ConditionalCreateOnlyProperties {
		names := withoutItems(path)
		isChanged := slices.ContainsFunc(changed, func(p resourcetype.Path) bool { return resourcetype.Has([]resourcetype.Path{names}, p) })
		if isChanged && len(out) < maxConditional && !slices.Contains(out, path.String()) {
			out = append(out, path.String())
		}
	}
	slices.Sort(out)
	return out
}

// They have no indexes of items.
func addPaths(all []resourcetype.Path, path resourcetype.Path, value any) []resourcetype.Path {
	all = append(all, path)
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			all = addPaths(all, append(slices.Clip(path), key), item)
		}
	case []any:
		for _, item := range v {
			all = addPaths(all, path, item)
		}
	}
	return all
}

// What stands for indexes is removed, too.
func withoutItems(path resourcetype.Path) resourcetype.Path {
	return slices.DeleteFunc(slices.Clone(path), func(name string) bool {
		_, err := strconv.Atoi(name)
		return err == nil || name == resourcetype.Any
	})
}
