// Package transform evaluates the propertyTransform expressions of resource types: how AWS changes a value that
// a user specifies, such as $lowercase(DBName). They are in JSONata; this package has the part of the language
// that they use, without functions that an expression defines itself. Alternatives are separated by $OR.
//
// Pure: it decides from values alone.
package transform

import (
	"regexp"
	"strings"
)

// Bounds of an evaluation.
const (
	maxSteps  = 2000
	maxDepth  = 40
	maxString = 1 << 16
	// maxPattern bounds a result that is taken as a regular expression.
	maxPattern = 4096
)

// Apply evaluates each alternative of an expression with the properties around a value. Failed counts those
// that cannot be evaluated. A nil result stands for no value.
func Apply(expression string, properties map[string]any) (results []any, failed int) {
	for _, alternative := range strings.Split(expression, "$OR") {
		program, err := parse(strings.TrimSpace(alternative))
		if err != nil {
			failed++
			continue
		}
		e := evaluation{}
		result, err := e.evaluate(program, scope{input: properties, variables: map[string]any{}})
		if err != nil {
			failed++
			continue
		}
		results = append(results, result)
	}
	return results, failed
}

// Supports reports whether all alternatives of an expression can be parsed.
func Supports(expression string) bool {
	for _, alternative := range strings.Split(expression, "$OR") {
		if _, err := parse(strings.TrimSpace(alternative)); err != nil {
			return false
		}
	}
	return true
}

// Matches reports whether a result is a regular expression for a value, as many transforms return one.
func Matches(result, value any) bool {
	pattern, isPattern := result.(string)
	text, isText := value.(string)
	if !isPattern || !isText || pattern == "" || len(pattern) > maxPattern {
		return false
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err == nil && re.MatchString(text)
}
