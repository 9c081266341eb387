package expr

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// SuggestionKind is what a suggestion names.
type SuggestionKind string

// Kinds of suggestions.
const (
	SuggestVariable SuggestionKind = "variable"
	SuggestField    SuggestionKind = "field"
	SuggestFunction SuggestionKind = "function"
	SuggestMacro    SuggestionKind = "macro"
)

// Suggestion is a name that may be at a place of an expression.
type Suggestion struct {
	Name string
	Kind SuggestionKind
	// Type is the type of a variable or a field.
	Type string
	// Doc is the description of a field, or of a function.
	Doc string
	// Signatures lists the signatures of a function or a macro.
	Signatures []string
}

// ForConditions returns the environment of the expressions of status.conditions.
func (e *Env) ForConditions() (*Env, error) {
	out, _, err := e.withConditions()
	return out, err
}

// Suggest returns what may stand at a byte of an expression, which need not be complete: fields and functions of the value before a dot,
// and otherwise variables and functions. from is the byte at which the name begins that is there already.
func (e *Env) Suggest(source string, offset int) (suggestions []Suggestion, from int) {
	source = source[:min(max(offset, 0), len(source))]
	from = wordStart(source, len(source))
	if e.checkLimits(source, "") != nil {
		return nil, from
	}
	s := scanExpression(source)
	if s.isInLiteral || from < len(source) && '0' <= source[from] && source[from] <= '9' {
		return nil, from
	}
	scope := e.within(&s)
	end, isSelection := operandBefore(source, from)
	if !isSelection {
		return scope.suggestNames(), from
	}
	operand := source[s.chainStart(end):end]
	if graph, is := scope.graphNamed(operand); is {
		return scope.suggestNodes(graph), from
	}
	if t := scope.typeOf(operand); t != nil {
		return scope.suggestMembers(t), from
	}
	return scope.suggestQualified(operand + "."), from
}

// typeOf returns nil for an invalid expression.
func (e *Env) typeOf(source string) *cel.Type {
	tree := e.check(source)
	if tree == nil {
		return nil
	}
	return tree.GetType(tree.Expr().ID())
}

func (e *Env) check(source string) *ast.AST {
	if strings.TrimSpace(source) == "" || e.checkLimits(source, "") != nil {
		return nil
	}
	parsed, issues := e.parse(e.cel, source)
	if issues.Err() != nil {
		return nil
	}
	checked, issues := e.cel.Check(parsed)
	if issues.Err() != nil {
		return nil
	}
	return checked.NativeRep()
}

const maxSuggestedFrames = 10

// within returns the environment at the end of a scanned expression: with the variables of the macros around it.
func (e *Env) within(s *scan) *Env {
	out := e
	for _, frame := range s.open[max(0, len(s.open)-maxSuggestedFrames):] {
		if s.source[frame.at] != '(' {
			continue
		}
		start := wordStart(s.source, frame.at)
		end, isMember := operandBefore(s.source, start)
		if !isMember {
			continue
		}
		receiver := s.source[s.chainStart(end):end]
		for _, d := range out.macroVariables(s.source[start:frame.at], receiver, s.arguments(frame)) {
			if with, err := out.With(d); err == nil {
				out = with
			}
		}
	}
	return out
}

// arguments are the complete arguments of a call that is not closed.
func (s *scan) arguments(f openBracket) []string {
	var out []string
	for i, start := range f.args[:len(f.args)-1] {
		out = append(out, strings.TrimSpace(s.source[start:f.args[i+1]-1]))
	}
	return out
}

// oneVariableMacros begin with the name of an item. Macros with two variables begin with the name of an index or a key.
var (
	oneVariableMacros  = []string{"all", "exists", "existsOne", "exists_one", "map", "filter", "sortBy"}
	twoVariablesMacros = []string{"all", "exists", "existsOne", "exists_one", "transformList", "transformMap", "transformMapEntry"}
)

// macroVariables are the variables that a macro declares for what follows its arguments.
func (e *Env) macroVariables(macro, receiver string, args []string) []Declaration {
	isName := func(i int) bool { return i < len(args) && args[i] != "" && wordStart(args[i], len(args[i])) == 0 }
	switch {
	case macro == "bind" && receiver == "cel" && len(args) > 1 && isName(0):
		return []Declaration{{Name: args[0], Type: e.typeOf(args[1])}}
	case (macro == "optMap" || macro == "optFlatMap") && isName(0):
		of := e.typeOf(receiver)
		if of != nil {
			of, _ = unwrapped(of)
		}
		return []Declaration{{Name: args[0], Type: of}}
	case slices.Contains(twoVariablesMacros, macro) && isName(0) && isName(1):
		key, item := keyAndItem(e.typeOf(receiver))
		return []Declaration{{Name: args[0], Type: key}, {Name: args[1], Type: item}}
	case slices.Contains(oneVariableMacros, macro) && isName(0):
		t := e.typeOf(receiver)
		key, item := keyAndItem(t)
		if t != nil && t.Kind() == cel.MapKind {
			item = key // these range over the keys of a map
		}
		return []Declaration{{Name: args[0], Type: item}}
	}
	return nil
}

// key and item are nil if they are unknown.
func keyAndItem(t *cel.Type) (key, item *cel.Type) {
	if t == nil {
		return nil, nil
	}
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	switch t.Kind() {
	case cel.ListKind:
		return cel.IntType, t.Parameters()[0]
	case cel.MapKind:
		return t.Parameters()[0], t.Parameters()[1]
	default:
		return nil, nil
	}
}

// suggestNames are the variables, and the functions that are not called on a value.
func (e *Env) suggestNames() []Suggestion {
	var out []Suggestion
	for _, name := range e.visible() {
		if _, isGraph := e.names.Graphs[name]; isGraph {
			out = append(out, Suggestion{Name: name, Kind: SuggestVariable, Type: "graph"})
			continue
		}
		s := e.vars[e.Declared(name)]
		out = append(out, Suggestion{Name: name, Kind: SuggestVariable, Type: typeLabel(s.celType()), Doc: s.description()})
	}
	return append(out, e.functions(nil, "")...)
}

// Declared is the declared name that a name stands for.
func (s *Scope) Declared(name string) string {
	if to, is := s.names.Names[name]; is {
		return to.Declared
	}
	return name
}

// suggestNodes are the nodes of a graph.
func (e *Env) suggestNodes(graph Namespace) []Suggestion {
	var out []Suggestion
	for _, name := range slices.Sorted(maps.Keys(graph.Names)) {
		s := e.vars[graph.Names[name].Declared]
		out = append(out, Suggestion{Name: name, Kind: SuggestField, Type: typeLabel(s.celType()), Doc: s.description()})
	}
	for _, name := range slices.Sorted(maps.Keys(graph.Graphs)) {
		out = append(out, Suggestion{Name: name, Kind: SuggestField, Type: "graph"})
	}
	return out
}

func (e *Env) suggestQualified(qualifier string) []Suggestion { return e.functions(nil, qualifier) }

func (e *Env) suggestMembers(t *cel.Type) []Suggestion {
	var out []Suggestion
	of := t
	if inner, ok := unwrapped(t); ok {
		of = inner
	}
	s := e.shapes.ofCELType(of)
	for _, name := range s.fieldNames() {
		if plain := wordStart(name, len(name)) == 0; plain {
			f, _ := s.field(name)
			out = append(out, Suggestion{Name: name, Kind: SuggestField, Type: typeLabel(f.celType()), Doc: s.fieldDescription(name)})
		}
	}
	return append(out, e.functions(t, "")...)
}

func (s *shape) description() string {
	if s != nil && s.object != nil {
		return s.object.declared.description
	}
	return s.schemaTraits().description
}

func (s *shape) fieldDescription(name string) string {
	p, declared := s.object.property(name)
	if !declared {
		f, _ := s.object.known(name)
		return f.description()
	}
	return cmp.Or(p.Description, unwrapAllOf(&p).Description)
}

// functions are the functions and macros that can be called on a value of a type, or, without a type, those that are not called on a value
// and begin with a qualifier. Their names are without it.
func (e *Env) functions(receiver *cel.Type, qualifier string) []Suggestion {
	var out []Suggestion
	for name, f := range e.cel.Functions() {
		if _, is := operator(name); is {
			continue
		}
		var signatures []overload
		for _, o := range f.OverloadDecls() {
			if o.IsMemberFunction() == (receiver != nil) && (receiver == nil || accepts(o.ArgTypes()[0], receiver)) {
				signatures = append(signatures, signatureOf(name, o.IsMemberFunction(), o.ArgTypes(), o.ResultType()))
			}
		}
		if short, has := strings.CutPrefix(name, qualifier); has && len(signatures) > 0 {
			out = append(out, Suggestion{Name: short, Kind: SuggestFunction, Doc: f.Description(), Signatures: mergeSignatures(signatures)})
		}
	}
	out = append(out, e.macros(receiver, qualifier)...)
	slices.SortFunc(out, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), slices.Compare(a.Signatures, b.Signatures))
	})
	return slices.CompactFunc(out, func(a, b Suggestion) bool { return a.Name == b.Name && a.Kind == b.Kind })
}

var macroArguments = map[string]string{
	"has": "field", "all": "item, condition", "exists": "item, condition", "existsOne": "item, condition", "exists_one": "item, condition",
	"filter": "item, condition", "map": "item, value", "sortBy": "item, key", "transformList": "index, item, value", "transformMap": "key, item, value",
	"transformMapEntry": "key, item, entry", "bind": "name, value, result", "optMap": "name, value", "optFlatMap": "name, value",
	"newCondition": "{type, status, reason, message}",
}

func (e *Env) macros(receiver *cel.Type, qualifier string) []Suggestion {
	var out []Suggestion
	for _, m := range e.cel.Macros() {
		prefix, isQualified := receivers[m.Function()]
		isMember := m.IsReceiverStyle() && !isQualified
		short, has := strings.CutPrefix(prefix+m.Function(), qualifier)
		if isMember != (receiver != nil) || !has || strings.HasPrefix(m.Function(), "_") || isMember && !canBeRanged(m.Function(), receiver) {
			continue
		}
		signature := prefix + m.Function() + "(" + macroArguments[m.Function()] + ")"
		out = append(out, Suggestion{Name: short, Kind: SuggestMacro, Signatures: []string{signature}})
	}
	return out
}

func canBeRanged(macro string, t *cel.Type) bool {
	_, optional := unwrapped(t)
	if strings.HasPrefix(macro, "opt") {
		return optional
	}
	switch t.Kind() {
	case cel.DynKind, cel.AnyKind, cel.ListKind:
		return true
	case cel.MapKind:
		return macro != "sortBy"
	default:
		return false
	}
}

func accepts(parameter, t *cel.Type) bool {
	switch {
	case parameter.Kind() == cel.TypeParamKind, parameter.Kind() == cel.DynKind, t.Kind() == cel.DynKind:
		return true
	case parameter.Kind() != t.Kind() || parameter.Kind() == cel.OpaqueKind && parameter.TypeName() != t.TypeName():
		return false
	case parameter.Kind() == cel.StructKind:
		return parameter.TypeName() == t.TypeName()
	}
	for i, p := range parameter.Parameters() {
		if i < len(t.Parameters()) && !accepts(p, t.Parameters()[i]) {
			return false
		}
	}
	return true
}

// Description is what is known of a name in an expression.
type Description struct {
	// From and To are the bytes of the name.
	From, To int
	Suggestion
	// Ref is the path that the name ends, if it is one of a variable; Root is empty otherwise.
	Ref Ref
}

const maxDescribedFields = 30

// Describe returns what the name at a byte of an expression means. Only what is before its end need be complete.
func (e *Env) Describe(source string, offset int) (Description, bool) {
	offset = min(max(offset, 0), len(source))
	to := offset
	for to < len(source) && isWord(source[to]) {
		to++
	}
	d := Description{From: wordStart(source, to), To: to}
	before := source[:to]
	s := scanExpression(before)
	if d.From == to || s.isInLiteral || e.checkLimits(before, "") != nil {
		return d, false
	}
	name, scope := source[d.From:to], e.within(&s)
	start := s.chainStart(to)
	end, isSelection := operandBefore(source, d.From)
	if strings.HasPrefix(strings.TrimLeft(source[to:], " \t\r\n"), "(") {
		var all []Suggestion
		if t := scope.typeOf(before[start:max(start, end)]); isSelection && t != nil {
			all = scope.functions(t, "")
		} else {
			all = scope.functions(nil, strings.TrimSuffix(before[start:to], name))
		}
		if i := slices.IndexFunc(all, func(s Suggestion) bool { return s.Name == name }); i >= 0 {
			d.Suggestion = all[i]
			return d, true
		}
		return d, false
	}
	tree := scope.check(before[start:to])
	if tree == nil {
		return d, false
	}
	d.Name, d.Kind = name, SuggestVariable
	c := collector{isDeclared: e.declares}
	if r, ok := c.pathOf(tree.Expr(), nil, nil); ok {
		d.Ref = r
	}
	scope.describeType(&d, tree, before[start:max(start, end)], isSelection)
	return d, true
}

func (e *Env) describeType(d *Description, tree *ast.AST, operand string, isSelection bool) {
	t := tree.GetType(tree.Expr().ID())
	d.Type = typeLabel(t)
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	if fields := e.shapes.ofCELType(t).fieldNames(); len(fields) > 0 {
		if more := len(fields) - maxDescribedFields; more > 0 {
			fields = append(fields[:maxDescribedFields:maxDescribedFields], "…")
		}
		d.Type += " with " + strings.Join(fields, ", ")
	}
	if !isSelection {
		d.Doc = e.vars[e.Declared(d.Name)].description()
		return
	}
	d.Kind = SuggestField
	of := e.typeOf(operand)
	if of == nil {
		return
	}
	if inner, ok := unwrapped(of); ok {
		of = inner
	}
	if s := e.shapes.ofCELType(of); s.kindOf() == ofObject {
		d.Doc = s.fieldDescription(d.Name)
	}
}

var objectTypes = regexp.MustCompile(`object\([^()]*\)`)

// typeLabel names a type; an object's is only called object.
func typeLabel(t *cel.Type) string { return objectTypes.ReplaceAllString(typeText(t), "object") }
