package patchandtransform

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
)

// The JSON types of values in expressions; unknown where no schema says it.
const (
	typeString  = "string"
	typeInteger = "integer"
	typeNumber  = "number"
	typeBoolean = "boolean"
	typeObject  = "object"
	typeArray   = "array"
	typeUnknown = ""
)

// expression is a value in CEL.
type expression struct {
	text string
	// optional says that the value is an optional: the text has none if a field is missing.
	optional bool
	// kind is the JSON type, and schema says more about objects and lists; nil if that is unknown.
	kind   string
	schema *apiextensionsv1.JSONSchemaProps
}

// bound applies a function to the value of an expression, or to that of an optional.
func (e expression) bound(body func(variable string) (text, kind string, err error)) (expression, error) {
	variable := e.text
	if e.optional {
		variable = "v"
	}
	text, kind, err := body(variable)
	if err != nil {
		return expression{}, err
	}
	if e.optional && text != variable {
		text = e.text + ".optMap(v, " + text + ")"
	} else if e.optional {
		text = e.text
	}
	return expression{text: text, optional: e.optional, kind: kind}, nil
}

// selected is the value at a path below a root. Fields that may be missing make it an optional, unless it
// is required. A path with [*] has no value: the function refuses it.
func selected(root expression, path fieldpath.Path, required bool) (expression, error) {
	at := root
	for _, s := range path {
		if s.Field == "*" && !s.IsIndex {
			return expression{}, fmt.Errorf("reads %s.%s: [*] is only for fields that are written", strings.TrimPrefix(root.text, "schema."), path)
		}
		if at.lacks(s) {
			return expression{}, fmt.Errorf("reads %s.%s, which the schema does not have", strings.TrimPrefix(root.text, "schema."), path)
		}
		at = at.child(s, required)
	}
	return at, nil
}

type schemaOrNil struct {
	*apiextensionsv1.JSONSchemaProps
}

func (s schemaOrNil) kind() string {
	if s.JSONSchemaProps == nil {
		return typeUnknown
	}
	return s.Type
}

func itemsOf(s *apiextensionsv1.JSONSchemaProps) schemaOrNil {
	if s == nil || s.Items == nil {
		return schemaOrNil{}
	}
	return schemaOrNil{s.Items.Schema}
}

// lacks says whether no value of the schema has a field.
func (e expression) lacks(s fieldpath.Segment) bool {
	if e.schema == nil || s.IsIndex || e.schema.AdditionalProperties != nil {
		return false
	}
	_, ok := e.schema.Properties[s.Field]
	return !ok && (e.schema.XPreserveUnknownFields == nil || !*e.schema.XPreserveUnknownFields)
}

var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// child is a field or an item of a value.
func (e expression) child(s fieldpath.Segment, required bool) expression {
	out := expression{optional: e.optional}
	mark := func() string {
		if required {
			return ""
		}
		out.optional = true
		return "?"
	}
	if s.IsIndex {
		items := itemsOf(e.schema)
		out.kind, out.schema = items.kind(), items.JSONSchemaProps
		out.text = e.text + "[" + mark() + strconv.Itoa(s.Index) + "]"
		return out
	}
	if e.schema != nil {
		if field, ok := e.schema.Properties[s.Field]; ok {
			out.kind, out.schema = field.Type, &field
			name, escaped := apiservercel.Escape(s.Field)
			if !escaped {
				name = s.Field
			}
			if slices.Contains(e.schema.Required, s.Field) || field.Default != nil {
				out.text = e.text + "." + name
			} else {
				out.text = e.text + "." + mark() + name
			}
			return out
		}
		if e.schema.AdditionalProperties != nil && e.schema.AdditionalProperties.Schema != nil {
			values := e.schema.AdditionalProperties.Schema
			out.kind, out.schema = values.Type, values
			out.text = e.text + "[" + mark() + quoted(s.Field) + "]"
			return out
		}
	}
	if identifier.MatchString(s.Field) && !slices.Contains([]string{"true", "false", "null", "in"}, s.Field) {
		out.text = e.text + "." + mark() + s.Field
	} else {
		out.text = e.text + "[" + mark() + quoted(s.Field) + "]"
	}
	return out
}

// quoted is a string literal. It contains no "${", which would begin an expression in a template.
func quoted(text string) string {
	return strings.ReplaceAll(strconv.Quote(text), "${", `$" + "{`)
}

// literal is a value in CEL; expressions in it stay expressions.
func literal(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case *expression:
		return v.text
	case string:
		return quoted(v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if v == float64(int64(v)) {
			return strconv.FormatInt(int64(v), 10) // JSON does not tell them apart
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = literal(item)
			if e, ok := item.(*expression); ok && e.optional {
				items[i] = "?" + items[i]
			}
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var entries []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			mark := ""
			if e, ok := v[key].(*expression); ok && e.optional {
				mark = "?"
			}
			entries = append(entries, mark+quoted(key)+": "+literal(v[key]))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	default:
		return quoted(fmt.Sprint(v))
	}
}

// kindOf is the JSON type of a literal.
func kindOf(value any) string {
	switch v := value.(type) {
	case string:
		return typeString
	case bool:
		return typeBoolean
	case int64:
		return typeInteger
	case float64:
		if v == float64(int64(v)) {
			return typeInteger
		}
		return typeNumber
	case []any:
		return typeArray
	case map[string]any:
		return typeObject
	case *expression:
		return v.kind
	}
	return typeUnknown
}

// asString is the value as fmt.Sprint writes it.
func asString(v, kind string) (string, error) {
	switch kind {
	case typeString:
		return v, nil
	case typeInteger, typeBoolean:
		return "string(" + v + ")", nil
	case typeUnknown:
		return "string(" + v + ")", nil
	}
	return "", fmt.Errorf("it makes a string of a value of type %s, which expressions write differently", kind)
}

// afterTransforms is the value of an expression after transforms.
func afterTransforms(e expression, transforms []transform) (expression, error) {
	if len(transforms) == 0 {
		return e, nil
	}
	return e.bound(func(v string) (string, string, error) {
		kind := e.kind
		for i := range transforms {
			var err error
			if v, kind, err = transforms[i].expression(v, kind); err != nil {
				return "", "", fmt.Errorf("transform at index %d: %w", i, err)
			}
		}
		return v, kind, nil
	})
}

// once binds a value that a body reads several times to a variable.
func once(v string, body func(v string) string) string {
	if identifier.MatchString(v) || regexp.MustCompile(`^[a-zA-Z0-9_.]+$`).MatchString(v) {
		return body(v)
	}
	return "cel.bind(x, " + v + ", " + body("x") + ")"
}

func (t *transform) expression(v, kind string) (text, out string, err error) {
	switch t.Type {
	case "math":
		return t.Math.expression(v, kind)
	case "map":
		text, out := mapExpression(t.Map, v)
		return text, out, nil
	case "match":
		return t.Match.expression(v, kind)
	case "string":
		return t.String.expression(v, kind)
	case "convert":
		return t.Convert.expression(v, kind)
	}
	return "", "", fmt.Errorf("type %q has no equivalent", t.Type)
}

func (m *math) expression(v, kind string) (text, out string, err error) {
	number := func(n int64) string {
		if kind == typeNumber {
			return strconv.FormatInt(n, 10) + ".0"
		}
		return strconv.FormatInt(n, 10)
	}
	switch {
	case kind != typeInteger && kind != typeNumber:
		return "", "", fmt.Errorf("math needs a number, and the schema does not say that the value is one")
	case m.Type == "ClampMin":
		return once(v, func(v string) string {
			return "(" + v + " < " + number(*m.ClampMin) + " ? " + number(*m.ClampMin) + " : " + v + ")"
		}), kind, nil
	case m.Type == "ClampMax":
		return once(v, func(v string) string {
			return "(" + v + " > " + number(*m.ClampMax) + " ? " + number(*m.ClampMax) + " : " + v + ")"
		}), kind, nil
	}
	return "(" + v + " * " + number(*m.Multiply) + ")", kind, nil
}

// mapExpression looks a value up. Values of several types are dynamic.
func mapExpression(pairs map[string]any, v string) (text, kind string) {
	kind = sameKind(slices.Collect(maps.Values(pairs)))
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		entries = append(entries, quoted(key)+": "+dynamic(pairs[key], kind))
	}
	return "{" + strings.Join(entries, ", ") + "}[" + v + "]", kind
}

// sameKind is the type that all values have; unknown if there is none.
func sameKind(values []any) string {
	kind := typeUnknown
	for i, value := range values {
		if got := kindOf(value); i == 0 {
			kind = got
		} else if got != kind {
			return typeUnknown
		}
	}
	return kind
}

// dynamic is a literal, without its static type if values beside it have other types.
func dynamic(value any, kind string) string {
	if kind == typeString || kind == typeBoolean || kind == typeInteger {
		return literal(value)
	}
	return "dyn(" + literal(value) + ")"
}

func (m *match) expression(v, of string) (text, kind string, err error) {
	if len(m.Patterns) > 0 && of != typeString && of != typeUnknown {
		return "", "", fmt.Errorf("match is of strings, and the value is of type %s: the function fails", of)
	}
	results := []any{}
	for i := range m.Patterns {
		results = append(results, m.Patterns[i].Result)
	}
	byInput := m.FallbackTo == "Input"
	if byInput {
		results = append(results, "")
	} else {
		results = append(results, m.FallbackValue)
	}
	if slices.Contains(results, nil) {
		return "", "", fmt.Errorf("match has null as a result, which an expression cannot set")
	}
	kind = sameKind(results)
	return once(v, func(v string) string {
		text := v
		if !byInput {
			text = dynamic(m.FallbackValue, kind)
		} else if kind != typeString {
			text = "dyn(" + v + ")"
		}
		for _, p := range slices.Backward(m.Patterns) {
			condition := ""
			if p.Type == "regexp" {
				condition = v + ".matches(" + quoted(*p.Regexp) + ")"
			} else {
				condition = v + " == " + quoted(*p.Literal)
			}
			text = condition + " ? " + dynamic(p.Result, kind) + " : " + text
		}
		return "(" + text + ")"
	}), kind, nil
}

func (s *stringTransform) expression(v, kind string) (text, out string, err error) {
	if s.Type == "Format" {
		text, err := formatExpression(*s.Format, []expression{{text: v, kind: kind}})
		return text, typeString, err
	}
	if s.Type == "Join" {
		return joinExpression(v, kind, s.Join.Separator)
	}
	if s.Type == "Convert" && (*s.Convert == "ToJson" || strings.HasPrefix(*s.Convert, "ToSha")) && kind != typeString {
		if *s.Convert == "ToJson" && kind != typeUnknown {
			return "json.marshal(" + v + ")", typeString, nil
		}
		return "", "", fmt.Errorf("%s of a value that the schema does not call a string has no equivalent", *s.Convert)
	}
	if v, err = asString(v, kind); err != nil {
		return "", "", err
	}
	switch s.Type {
	case "Convert":
		text, err := convertExpression(v, *s.Convert)
		return text, typeString, err
	case "TrimPrefix":
		cut := strconv.Itoa(len([]rune(*s.Trim)))
		return once(v, func(v string) string {
			return "(" + v + ".startsWith(" + quoted(*s.Trim) + ") ? " + v + ".substring(" + cut + ") : " + v + ")"
		}), typeString, nil
	case "TrimSuffix":
		cut := strconv.Itoa(len([]rune(*s.Trim)))
		return once(v, func(v string) string {
			return "(" + v + ".endsWith(" + quoted(*s.Trim) + ") ? " + v + ".substring(0, " + v + ".size() - " + cut + ") : " + v + ")"
		}), typeString, nil
	case "Replace":
		return v + ".replace(" + quoted(s.Replace.Search) + ", " + quoted(s.Replace.Replace) + ")", typeString, nil
	case "Regexp":
		if s.Regexp.Replace == nil && s.Regexp.Group == 0 {
			return v + ".findAll(" + quoted(s.Regexp.Match) + ", 1)[0]", typeString, nil // fails without a match, too
		}
		return "", "", fmt.Errorf("regular expressions with groups or replacements have no equivalent")
	}
	return "", "", fmt.Errorf("string transform %s has no equivalent", s.Type)
}

func joinExpression(v, kind, separator string) (text, out string, err error) {
	if kind != typeArray {
		return "", "", fmt.Errorf("a join needs a list, and the schema does not say that the value is one")
	}
	return v + ".map(i, string(i)).join(" + quoted(separator) + ")", typeString, nil
}

func convertExpression(v, how string) (string, error) {
	switch how {
	case "ToUpper":
		return v + ".upperAscii()", nil
	case "ToLower":
		return v + ".lowerAscii()", nil
	case "ToBase64":
		return "base64.encode(bytes(" + v + "))", nil
	case "FromBase64":
		return "string(base64.decode(" + v + "))", nil
	case "ToJson":
		return "json.marshal(" + v + ")", nil
	case "ToSha256":
		return `"%x".format([hash.sha256(` + v + ")])", nil
	}
	return "", fmt.Errorf("%s has no equivalent", how)
}

func (c *convert) expression(v, kind string) (text, out string, err error) {
	to := map[string]string{"int": typeInteger, "int64": typeInteger, "float64": typeNumber, "bool": typeBoolean, "string": typeString, "object": typeObject, "array": typeArray}[c.ToType]
	switch {
	case kind == typeUnknown:
		return "", "", fmt.Errorf("a conversion to %s needs to know the type of the value, which no schema says", c.ToType)
	case kind == to:
		return v, kind, nil
	case kind == typeString && c.format() == "json":
		return "json.unmarshal(" + v + ")", to, nil
	case kind == typeString && c.format() == "quantity":
		return "quantity(" + v + ").asApproximateFloat()", to, nil
	case kind == typeBoolean && to == typeInteger:
		return "(" + v + " ? 1 : 0)", to, nil
	case kind == typeBoolean && to == typeNumber:
		return "(" + v + " ? 1.0 : 0.0)", to, nil
	case to == typeBoolean && kind == typeInteger:
		return "(" + v + " == 1)", to, nil
	case to == typeBoolean && kind == typeNumber:
		return "(" + v + " == 1.0)", to, nil
	case to == typeString && kind == typeNumber:
		return "", "", fmt.Errorf("a float as a string may be written differently")
	}
	functions := map[string]string{typeString: "string", typeInteger: "int", typeNumber: "double", typeBoolean: "bool"}
	if functions[to] == "" || kind == typeObject || kind == typeArray {
		return "", "", fmt.Errorf("a conversion from %s to %s has no equivalent", kind, c.ToType)
	}
	return functions[to] + "(" + v + ")", to, nil
}

// formatExpression is a format of values: %s, %d and %v without flags.
func formatExpression(text string, values []expression) (string, error) {
	var parts []string
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			parts = append(parts, quoted(plain.String()))
			plain.Reset()
		}
	}
	next := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			plain.WriteByte(text[i])
			continue
		}
		if i++; i == len(text) || !strings.ContainsRune("%sdv", rune(text[i])) {
			return "", fmt.Errorf("format %q has verbs other than %%s, %%d and %%v, or flags, which expressions do not know", text)
		}
		if text[i] == '%' {
			plain.WriteByte('%')
			continue
		}
		if next == len(values) {
			return "", fmt.Errorf("format %q has more verbs than values", text)
		}
		e := values[next]
		next++
		if text[i] == 'd' && e.kind != typeInteger {
			return "", fmt.Errorf("format %q writes a value as an integer that the schema does not call one", text)
		}
		if text[i] == 's' && e.kind != typeString && e.kind != typeUnknown {
			return "", fmt.Errorf("format %q writes a %s with %%s", text, e.kind)
		}
		v, err := asString(e.text, e.kind)
		if err != nil {
			return "", err
		}
		flush()
		parts = append(parts, v)
	}
	if flush(); next < len(values) {
		return "", fmt.Errorf("format %q has fewer verbs than values", text)
	}
	if len(parts) == 0 {
		return `""`, nil
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return "(" + strings.Join(parts, " + ") + ")", nil
}
