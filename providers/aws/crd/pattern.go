package crd

import (
	"regexp"
	"strconv"
	"strings"
)

// maxCount is the largest repetition count that Go's regular expressions allow.
const maxCount = 1000

// The result is empty if there is none that Go compiles. exact is false if it also allows strings that the original
// does not.
func patternOf(pattern string) (out string, exact bool) {
	if _, err := regexp.Compile(pattern); err == nil {
		return pattern, true
	}
	pattern = unicodeEscape.ReplaceAllString(pattern, `\x{$1}`)
	if _, err := regexp.Compile(pattern); err == nil {
		return pattern, true
	}
	pattern = withoutLargeCounts(pattern)
	if _, err := regexp.Compile(pattern); err == nil {
		return pattern, false
	}
	return "", false
}

var (
	unicodeEscape = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)
	count         = regexp.MustCompile(`^\{(\d+)(,(\d*))?\}`)
)

// Counts that are too large for Go become * or +, outside of character classes.
func withoutLargeCounts(pattern string) string {
	var out strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			out.WriteString(pattern[i : i+2])
			i++
			continue
		case pattern[i] == '[':
			inClass = true
		case pattern[i] == ']':
			inClass = false
		case pattern[i] == '{' && !inClass:
			if m := count.FindStringSubmatch(pattern[i:]); m != nil && (isLarge(m[1]) || isLarge(m[3])) {
				if m[1] == "0" {
					out.WriteByte('*')
				} else {
					out.WriteByte('+')
				}
				i += len(m[0]) - 1
				continue
			}
		}
		out.WriteByte(pattern[i])
	}
	return out.String()
}

func isLarge(number string) bool {
	n, err := strconv.Atoi(number)
	return number != "" && (err != nil || n > maxCount)
}
