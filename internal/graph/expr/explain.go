package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// typeDiagnostics turns the type checker's errors into diagnostics. It finds the part of
// the expression that an error is about in the syntax tree, where names and schemas are
// known, instead of parsing the text of the error.
func (e *Env) typeDiagnostics(issues *cel.Issues, tree *ast.AST, source string, at object.Path) diag.List {
	exprs := map[int64]ast.Expr{}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) { exprs[x.ID()] = x }))
	selections := e.selections(tree)
	var out diag.List
	for _, err := range issues.Errors() {
		d := diag.Diagnostic{Path: at, Expr: source, Offset: byteOffset(source, err.Location), Problem: err.Message}
		if x, ok := exprs[err.ExprID]; ok {
			hasOperandError := slices.ContainsFunc(issues.Errors(), func(other *cel.Error) bool { return other.ExprID != err.ExprID && containsExpr(x, other.ExprID) })
			if e.isConsequence(x, exprs) || overloadText.MatchString(err.Message) && !isConditionFunction(x) && hasOperandError {
				continue
			}
			e.rewriteTypeError(&d)
			e.describeNameError(&d, x, selections)
			d.Offset = nameOffset(source, d.Offset, x)
		}
		out.Add(d)
	}
	return out
}

func isConditionFunction(x ast.Expr) bool {
	if x.Kind() != ast.CallKind || !x.AsCall().IsMemberFunction() {
		return false
	}
	target, name := x.AsCall().Target(), x.AsCall().FunctionName()
	return target.Kind() == ast.IdentKind && target.AsIdent() == "runtime" && (name == newConditionMacro || name == "condition")
}

// isConsequence reports whether an error only follows from another: the author misspelled a macro, so a name which
// the macro would declare is unknown.
func (e *Env) isConsequence(x ast.Expr, exprs map[int64]ast.Expr) bool {
	for _, other := range exprs {
		if isConditionFunction(other) && other.ID() != x.ID() && containsExpr(other, x.ID()) {
			return true
		}
	}
	if x.Kind() != ast.IdentKind {
		return false
	}
	for _, other := range exprs {
		if other.Kind() != ast.CallKind || e.cel.HasFunction(other.AsCall().FunctionName()) {
			continue
		}
		declares := slices.ContainsFunc(other.AsCall().Args(), func(arg ast.Expr) bool { return arg.Kind() == ast.IdentKind && arg.AsIdent() == x.AsIdent() })
		within := slices.ContainsFunc(other.AsCall().Args(), func(arg ast.Expr) bool { return containsExpr(arg, x.ID()) })
		if declares && within {
			return true
		}
	}
	return false
}

func containsExpr(in ast.Expr, id int64) bool {
	found := false
	ast.PreOrderVisit(in, ast.NewExprVisitor(func(x ast.Expr) { found = found || x.ID() == id }))
	return found
}

type selection struct {
	from  Ref
	shape *shape
}

// selections returns the path and the shape that each field selection selects from.
func (e *Env) selections(tree *ast.AST) map[int64]selection {
	out := map[int64]selection{}
	c := collector{isDeclared: e.declares, onSelect: func(id int64, from Ref, _ string) {
		if s, ok := e.shapeAt(from); ok {
			out[id] = selection{from: from, shape: s}
		}
	}}
	c.visit(tree.Expr(), nil, nil)
	return out
}

func (e *Env) describeNameError(d *diag.Diagnostic, x ast.Expr, selections map[int64]selection) {
	switch x.Kind() {
	case ast.IdentKind:
		d.Problem = fmt.Sprintf("references unknown identifiers: [%s]", x.AsIdent())
		d.Nearest = diag.Nearest(x.AsIdent(), e.visible())
	case ast.SelectKind:
		e.describeFieldError(d, x.ID(), x.AsSelect().FieldName(), selections)
	case ast.CallKind:
		call := x.AsCall()
		if len(call.Args()) == 2 && call.Args()[1].Kind() == ast.LiteralKind {
			if name, ok := call.Args()[1].AsLiteral().Value().(string); ok {
				e.describeFieldError(d, x.ID(), name, selections)
			}
		}
		if shown, ok := operators.FindReverse(call.FunctionName()); ok && shown != "" {
			d.Problem = strings.Replace(d.Problem, "'"+call.FunctionName()+"'", "'"+shown+"'", 1)
		}
		if call.FunctionName() == newCondition {
			d.Problem, d.Expected = "the fields of a condition are strings", ""
		}
		if isConditionFunction(x) {
			d.Problem = "runtime." + call.FunctionName() + " is available only in status.conditions"
			return
		}
		if !e.cel.HasFunction(call.FunctionName()) {
			d.Problem = fmt.Sprintf("there is no function %q", call.FunctionName())
			d.Nearest = e.nearestFunction(call.FunctionName())
		}
	default: // literals cause no errors
	}
}

func (e *Env) describeFieldError(d *diag.Diagnostic, id int64, describeFieldError string, selections map[int64]selection) {
	s, ok := selections[id]
	if !ok {
		return
	}
	if _, ok := s.shape.field(describeFieldError); ok {
		return
	}
	if s.shape.kindOf() == ofObject {
		d.Problem, d.Expected = fmt.Sprintf("undefined field '%s' in %s", describeFieldError, s.from), ""
		d.Nearest = diag.Nearest(describeFieldError, s.shape.fieldNames())
		if read, is := diag.YAMLBoolean(describeFieldError); is && slices.Contains(s.shape.fieldNames(), read) {
			d.Problem += fmt.Sprintf(": YAML reads the key %s as the boolean %s unless it is quoted, and so there is a field %q", describeFieldError, read, read)
			d.Expected, d.Nearest = fmt.Sprintf("the key %q where the field is declared", describeFieldError), ""
		}
		if why, ok := e.missingFieldHints[s.from.Root][describeFieldError]; ok && len(s.from.Path) == 0 {
			d.Problem, d.Nearest = d.Problem+": "+why, ""
		}
		return
	}
	d.Problem, d.Expected = fmt.Sprintf("%s is %s and has no fields", s.from, describe(s.shape.celType())), ""
	if item, _ := s.shape.item(); s.shape.kindOf() == ofList && item.kindOf() == ofObject {
		d.Expected = fmt.Sprintf("%s[0].%s of one item, or %s.map(each, each.%s) of all", s.from, describeFieldError, s.from, describeFieldError)
	}
}

// nameOffset moves from the dot before a field, or the bracket after a function, to the
// name.
func nameOffset(source string, at int, x ast.Expr) int {
	switch {
	case at >= len(source):
	case x.Kind() == ast.SelectKind && source[at] == '.':
		return at + 1
	case x.Kind() == ast.CallKind && source[at] == '(':
		for at > 0 && (isWord(source[at-1])) {
			at--
		}
	}
	return at
}

func (e *Env) functionNames() []string {
	names := slices.Collect(maps.Keys(e.cel.Functions()))
	for _, m := range e.cel.Macros() {
		names = append(names, m.Function())
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.ContainsAny(name, "_@") })
}

// nearestFunction is the function that is most similar to a name, as an expression calls it.
func (e *Env) nearestFunction(name string) string {
	names := e.functionNames()
	nearest := diag.Nearest(name, names)
	if nearest == newConditionMacro || name == newConditionMacro && slices.Contains(names, name) {
		return "runtime." + newConditionMacro
	}
	return nearest
}

func startOffset(tree *ast.AST, source string, x ast.Expr) int {
	x = leftmost(x)
	start := tree.SourceInfo().GetStartLocation(x.ID())
	if start == common.NoLocation {
		return 0
	}
	at := byteOffset(source, start)
	if x.Kind() == ast.CallKind && strings.HasSuffix(source[:at], x.AsCall().FunctionName()) {
		at -= len(x.AsCall().FunctionName())
	}
	return at
}

// leftmost returns the part that an expression begins with: CEL locates a + b at
// its operator and a.b at its dot. It locates a function at its bracket.
func leftmost(x ast.Expr) ast.Expr {
	for {
		switch x.Kind() {
		case ast.SelectKind:
			x = x.AsSelect().Operand()
			continue
		case ast.CallKind:
			call := x.AsCall()
			if call.IsMemberFunction() {
				x = call.Target()
				continue
			}
			if strings.HasPrefix(call.FunctionName(), "_") {
				x = call.Args()[0]
				continue
			}
			return x
		default:
			return x
		}
	}
}

// describe names a type for a sentence, with its article.
func describe(t *cel.Type) string {
	switch t.Kind() {
	case cel.DynKind, cel.AnyKind, cel.TypeParamKind:
		return "anything"
	case cel.ListKind:
		return "a list of " + pluralNoun(t.Parameters()[0])
	case cel.MapKind:
		return "a map of " + pluralNoun(t.Parameters()[1])
	case cel.OpaqueKind:
		if inner, ok := unwrapped(t); ok {
			return "an optional " + typeNoun(inner)
		}
		switch t.TypeName() {
		case nowType.TypeName():
			return "the current time"
		case ageType.TypeName():
			return "a time that has passed until now"
		}
	default: // a type with a bare name
	}
	name := typeNoun(t)
	if t.Kind() == cel.NullTypeKind {
		return name
	}
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

func pluralNoun(t *cel.Type) string {
	switch t.Kind() {
	case cel.DynKind, cel.AnyKind, cel.TypeParamKind:
		return "anything"
	case cel.BytesKind:
		return "bytes"
	case cel.ListKind:
		return "lists of " + pluralNoun(t.Parameters()[0])
	case cel.MapKind:
		return "maps of " + pluralNoun(t.Parameters()[1])
	default:
		return typeNoun(t) + "s"
	}
}

func typeNoun(t *cel.Type) string {
	switch t.Kind() {
	case cel.IntKind, cel.UintKind:
		return "integer"
	case cel.DoubleKind:
		return "number"
	case cel.BoolKind:
		return "boolean"
	case cel.StructKind:
		return "object"
	case cel.NullTypeKind:
		return "null"
	case cel.BytesKind:
		return "byte string"
	case cel.ListKind:
		return "list of " + pluralNoun(t.Parameters()[0])
	case cel.MapKind:
		return "map of " + pluralNoun(t.Parameters()[1])
	case cel.DynKind, cel.AnyKind, cel.TypeParamKind:
		return "value of any type"
	default:
		return t.TypeName()
	}
}
