package diag

import "strings"

// YAMLBoolean is the boolean, as a text, that YAML 1.1 makes of a word which isn't quoted,
// also where the word is the key of a map.
func YAMLBoolean(word string) (boolean string, is bool) {
	switch strings.ToLower(word) {
	case "y", "yes", "on", "true":
		return "true", true
	case "n", "no", "off", "false":
		return "false", true
	}
	return "", false
}
