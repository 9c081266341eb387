package graph

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// HasSecretLiterals reports whether a definition contains Secret data as literals: in the template of a Secret, or in
// a variable that such a template reads directly or through other variables.
func HasSecretLiterals(spec *v1alpha1.DefinitionSpec) bool {
	if slices.ContainsFunc(spec.Resources, isSecretWithLiterals) {
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
			if r == nil || len(r.Value.Raw) == 0 || seen[r.ID] || !mentions(text, r.ID[strings.LastIndex(r.ID, "/")+1:]) {
				continue
			}
			var value any
			if json.Unmarshal(r.Value.Raw, &value) != nil || hasLiteral(value) {
				return true
			}
			seen[r.ID] = true
			open = append(open, r.Value.Raw)
		}
	}
	return false
}

// isSecretWithLiterals reports whether a template is a Secret with literal data. A value that is a single expression
// without a string literal is computed and not literal data.
func isSecretWithLiterals(r *v1alpha1.Resource) bool {
	var template struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Data       any    `json:"data"`
		StringData any    `json:"stringData"`
	}
	if r == nil || json.Unmarshal(r.Template.Raw, &template) != nil {
		return false
	}
	return template.APIVersion == "v1" && template.Kind == "Secret" && (hasLiteral(template.Data) || hasLiteral(template.StringData))
}

func hasLiteral(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, v := range value {
			if hasLiteral(v) {
				return true
			}
		}
		return false
	case string:
		computed := strings.HasPrefix(value, "${") && strings.HasSuffix(value, "}") && strings.Count(value, "${") == 1 && !strings.ContainsAny(value, "\"'")
		return value != "" && !computed
	}
	return true
}

func isSecret(template []byte) bool {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	return json.Unmarshal(template, &kind) == nil && kind.APIVersion == "v1" && kind.Kind == "Secret"
}

// mentions reports whether a text contains a name as a word. The word need not be a reference: not storing a
// definition is always safe.
func mentions(text []byte, id string) bool {
	word, err := regexp.Compile(`\b` + regexp.QuoteMeta(id) + `\b`)
	return err != nil || word.Match(text)
}
