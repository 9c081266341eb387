package conversion

import (
	"regexp"
	"strings"

	"github.com/espalier-dev/espalier/internal/object"
)

// secretName matches names of fields that may have a secret value. A name that ends in Name,
// Ref or the like refers to a secret and does not match.
var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|secret|token|credentials?|api_?-?key|private_?-?key|access_?-?key|secret_?-?key)s?$`)

func mayBeSecret(name string) bool { return secretName.MatchString(name) }

// isNumberOrBool reports whether a value is a number or a boolean, which is never a secret: maxTokens matches
// secretName.
func isNumberOrBool(value any) bool {
	switch value.(type) {
	case int64, float64, bool:
		return true
	}
	return false
}

func mayBeSecretPath(at object.Path) bool {
	for _, name := range strings.FieldsFunc(string(at), func(r rune) bool { return strings.ContainsRune(`.[]"`, r) }) {
		if mayBeSecret(name) {
			return true
		}
	}
	return false
}
