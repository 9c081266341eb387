package kind

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// HoldsSecret says whether a definition has values of Secrets written out: in the
// template of one, or in a variable that such a template reads, or another variable for
// it.
func HoldsSecret(spec *v1alpha1.DefinitionSpec) bool {
	if slices.ContainsFunc(spec.Resources, holdsSecret) {
		return true
	}
	seen := map[string]bool{}
	var open [][]byte
	for _, r := range spec.Resources {
		if r != nil && isSecret(r.Template.Raw) {
			open = append(open, r.Template.Raw)
		}
	}
	for len(open) > 0 {
		text := open[0]
		open = open[1:]
		for _, r := range spec.Resources {
			if r == nil || len(r.Value.Raw) == 0 || seen[r.ID] || !names(text, r.ID) {
				continue
			}
			var value any
			if json.Unmarshal(r.Value.Raw, &value) != nil || literal(value) {
				return true
			}
			seen[r.ID] = true
			open = append(open, r.Value.Raw)
		}
	}
	return false
}

func isSecret(template []byte) bool {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	return json.Unmarshal(template, &kind) == nil && kind.APIVersion == "v1" && kind.Kind == "Secret"
}

// names says whether a text has a name in it, as a word: whether that is read as one
// doesn't matter, for to note less than could be is no harm.
func names(text []byte, id string) bool {
	word, err := regexp.Compile(`\b` + regexp.QuoteMeta(id) + `\b`)
	return err != nil || word.Match(text)
}
