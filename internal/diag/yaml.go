package diag

import "strings"

// YAMLBoolean returns the boolean that YAML 1.1 reads for an unquoted word, also for the
// key of a map: "on" reads as true.
func YAMLBoolean(word string) (boolean string, is bool) {
	switch strings.ToLower(word) {
	case "y", "yes", "on", "true":
		return "true", true
	case "n", "no", "off", "false":
		return "false", true
	}
	return "", false
}
