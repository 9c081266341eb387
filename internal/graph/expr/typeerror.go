package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"

	"github.com/espalier-dev/espalier/internal/diag"
)

// CEL reports the argument types of a call only in the text of its error. These patterns
// parse it so that the diagnostic can describe them; a text that does not match stays
// unchanged.
var (
	overloadText = regexp.MustCompile(`^found no matching overload for '(.+)' applied to '(.*)\)'$`)
	rangeText    = regexp.MustCompile(`^expression of type '(.+)' cannot be range of a comprehension`)
	mismatchText = regexp.MustCompile(`^expected type '(.+)' but found '(.+)'$`)
)

func (e *Env) rewriteTypeError(d *diag.Diagnostic) {
	if m := overloadText.FindStringSubmatch(d.Problem); m != nil {
		var given []*cel.Type
		target, args := splitReceiver(m[2])
		if target != "" {
			given = append(given, parseType(target))
		}
		for _, text := range splitTypes(args) {
			given = append(given, parseType(text))
		}
		e.describeCallError(d, m[1], target != "", given)
	} else if m := rangeText.FindStringSubmatch(d.Problem); m != nil {
		d.Problem, d.Expected = describe(parseType(m[1]))+" cannot be iterated", "a list or a map"
	} else if m := mismatchText.FindStringSubmatch(d.Problem); m != nil {
		d.Problem, d.Expected = "the expression is "+describe(parseType(m[2])), describe(parseType(m[1]))
	}
}

// operandCount is the number of operands of the operators with an explanation of their own.
var operandCount = map[string]int{operators.Conditional: 3, operators.Index: 2, operators.OptIndex: 2, operators.LogicalNot: 1}

func (e *Env) describeCallError(d *diag.Diagnostic, name string, member bool, given []*cel.Type) {
	if len(given) < operandCount[name] {
		return // the text was parsed wrongly
	}
	switch name {
	case operators.Conditional:
		if given[0].Kind() != cel.BoolKind {
			d.Problem, d.Expected = "the condition of ?: is "+describe(given[0]), "a boolean"
		} else {
			d.Problem, d.Expected = "the two results of ?: are "+describePair(given[1], given[2]), "two values of the same type"
		}
		return
	case operators.Index, operators.OptIndex:
		describeIndexError(d, given)
		return
	case operators.LogicalNot:
		d.Problem, d.Expected = "! is applied to "+describe(given[0]), "a boolean"
		return
	}
	if name == "base64.decode" && len(given) == 1 && isBytes(given[0]) {
		d.Problem, d.Expected = "base64.decode is applied to bytes, which are decoded already, as the data of a Secret is", "string(…) for the text"
		return
	}
	if shown, ok := operators.FindReverse(name); ok && len(given) == 2 {
		d.Problem, d.Expected = shown+" is applied to "+describePair(given[0], given[1]), operandHint(shown, given)
		return
	}
	d.Problem = fmt.Sprintf("%s cannot be called ", name)
	args := given
	if member {
		d.Problem += "on " + describe(given[0]) + " "
		args = given[1:]
	}
	switch {
	case len(args) == 0:
		d.Problem += "without an argument"
	default:
		texts := make([]string, len(args))
		for i, t := range args {
			texts[i] = describe(t)
		}
		d.Problem += "with " + strings.Join(texts, ", ")
	}
	d.Expected = e.signatureText(name, member)
}

func isBytes(t *cel.Type) bool {
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	return t.Kind() == cel.BytesKind
}

func describePair(a, b *cel.Type) string { return describe(a) + " and " + describe(b) }

func describeIndexError(d *diag.Diagnostic, given []*cel.Type) {
	switch given[0].Kind() {
	case cel.StructKind:
		d.Problem, d.Expected = "an object has no computed keys", "the name of a field after a dot; for a lookup, a map such as ${{'small': 1, 'large': 2}}"
	case cel.ListKind:
		d.Problem, d.Expected = "the index of a list is "+describe(given[1]), "an integer"
	case cel.MapKind:
		d.Problem, d.Expected = "the key of a map is "+describe(given[1]), describe(given[0].Parameters()[0])
	default:
		d.Problem, d.Expected = describe(given[0])+" has neither items nor keys", "a list or a map"
	}
}

// operandHint says which operands an operator takes, and how to convert the given ones.
func operandHint(operator string, given []*cel.Type) string {
	text := slices.ContainsFunc(given, func(t *cel.Type) bool { return t.Kind() == cel.StringKind })
	numbers := !slices.ContainsFunc(given, func(t *cel.Type) bool {
		return t.Kind() != cel.IntKind && t.Kind() != cel.UintKind && t.Kind() != cel.DoubleKind
	})
	advice := ""
	for _, t := range given {
		_, optional := unwrapped(t)
		switch {
		case optional:
			advice = "; use .orValue(…)"
		case text && t.Kind() != cel.StringKind && advice == "":
			advice = conversionHint(t)
		}
	}
	if numbers {
		advice = "; use double(…) or int(…)"
	}
	switch operator {
	case "&&", "||":
		return "two booleans"
	case "in":
		return "a list or a map to the right of it"
	case "==", "!=":
		return "two values of the same type" + advice
	case "+":
		return "two strings, two numbers or two lists of the same type" + advice
	case "-", "*", "/", "%":
		return "two numbers of the same type" + advice
	}
	return "two values of the same ordered type" + advice
}

const maxShownSignatures = 4

// signatureText lists the signatures of a function: first those of the form, function or
// method, in which it was called.
func (e *Env) signatureText(name string, member bool) string {
	f, ok := e.cel.Functions()[name]
	if !ok {
		return ""
	}
	var out, others []string
	for _, o := range f.OverloadDecls() {
		var texts []string
		for _, t := range o.ArgTypes() {
			texts = append(texts, typeNoun(t))
		}
		text := name + "(" + strings.Join(texts, ", ") + ")"
		if o.IsMemberFunction() {
			text = "(" + texts[0] + ")." + name + "(" + strings.Join(texts[1:], ", ") + ")"
		}
		if o.IsMemberFunction() == member {
			out = append(out, text)
		} else {
			others = append(others, text)
		}
	}
	slices.Sort(out)
	slices.Sort(others)
	out = slices.Compact(append(out, others...))
	if more := len(out) - maxShownSignatures; more > 0 {
		out = append(out[:maxShownSignatures], diag.Counted(more, "other", "others"))
	}
	return strings.Join(out, " or ")
}

// splitReceiver splits the arguments of a call, "T.(A, B" or "(A, B", into the receiver and
// the rest. Types may have parentheses too.
func splitReceiver(text string) (target, args string) {
	depth := 0
	for i := range len(text) {
		switch {
		case text[i] == '(' && depth == 0 && (i == 0 || text[i-1] == '.'):
			return strings.TrimSuffix(text[:i], "."), text[i+1:]
		case text[i] == '(':
			depth++
		case text[i] == ')':
			depth--
		}
	}
	return "", text
}

func parseType(text string) *cel.Type {
	name, params, has := strings.Cut(text, "(")
	params = strings.TrimSuffix(params, ")")
	parts := splitTypes(params)
	switch {
	case name == "object" && has:
		return cel.ObjectType(text)
	case name == "list" && len(parts) == 1:
		return cel.ListType(parseType(parts[0]))
	case name == "map" && len(parts) == 2:
		return cel.MapType(parseType(parts[0]), parseType(parts[1]))
	case name == "optional_type" && len(parts) == 1:
		return cel.OptionalType(parseType(parts[0]))
	}
	for _, t := range []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType, cel.BytesType, cel.NullType,
		cel.TimestampType, cel.DurationType} {
		if t.String() == text {
			return t
		}
	}
	if text == "dyn" || text == "any" || text == "" {
		return cel.DynType
	}
	return cel.OpaqueType(text)
}

// splitTypes splits a list of types at its commas, but not at those inside a type.
func splitTypes(text string) []string {
	if text == "" {
		return nil
	}
	var out []string
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	return append(out, strings.TrimSpace(text[from:]))
}
