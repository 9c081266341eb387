package conversion

import (
	"regexp"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// secretName matches names of fields whose value may be secret. One that ends in Name,
// Ref or the like says where a secret is.
var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|secret|token|credentials?|api_?-?key|private_?-?key|access_?-?key|secret_?-?key)s?$`)

// maySecret says whether a field of the name may hold a secret.
func maySecret(name string) bool { return secretName.MatchString(name) }

// isFigure says whether a value is a number or true or false: maxTokens is no secret.
func isFigure(value any) bool {
	switch value.(type) {
	case int64, float64, bool:
		return true
	}
	return false
}

// maySecretPath says whether any field of a path may.
func maySecretPath(at object.Path) bool {
	for _, name := range strings.FieldsFunc(string(at), func(r rune) bool { return strings.ContainsRune(`.[]"`, r) }) {
		if maySecret(name) {
			return true
		}
	}
	return false
}
