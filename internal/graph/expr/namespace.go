package expr

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// Namespace is what names in expressions stand for where the declared names are longer: the nodes of a graph that is
// nested in another are declared by their paths. It must not change.
type Namespace struct {
	// Names are declared names, by the names that stand for them; other names stand for themselves.
	Names map[string]Name
	// Graphs are nested graphs, whose nodes are read as if they were fields.
	Graphs map[string]Namespace
}

// Name stands for a declared name.
type Name struct {
	Declared string
	// Frame identifies the graph in which the name is visible. An expression reads names of one frame only.
	Frame string
}

// Within returns an environment whose expressions use the names of a namespace.
func (e *Env) Within(names Namespace) *Env {
	scope := *e.Scope
	scope.names = names
	return &Env{Scope: &scope, cel: e.cel, empty: e.empty}
}

// without returns the namespace in which these names stand for themselves.
func (n Namespace) without(decls []Declaration) Namespace {
	out := Namespace{Names: maps.Clone(n.Names), Graphs: maps.Clone(n.Graphs)}
	for _, d := range decls {
		delete(out.Names, d.Name)
		delete(out.Graphs, d.Name)
	}
	return out
}

// Has says whether a name stands for another, or for a graph.
func (n Namespace) Has(name string) bool {
	_, isName := n.Names[name]
	_, isGraph := n.Graphs[name]
	return isName || isGraph
}

func (n Namespace) isEmpty() bool { return len(n.Names)+len(n.Graphs) == 0 }

// visible lists the names that expressions may use, sorted.
func (s *Scope) visible() []string {
	out := slices.Collect(maps.Keys(s.names.Names))
	out = slices.AppendSeq(out, maps.Keys(s.names.Graphs))
	for name := range s.vars {
		if !strings.Contains(name, "/") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// parse parses an expression, and puts the declared names in place of those of the namespace.
func (s *Scope) parse(env *cel.Env, source string) (*cel.Ast, *cel.Issues) {
	parsed, issues := env.Parse(source)
	if issues.Err() != nil || s.names.isEmpty() {
		return parsed, issues
	}
	tree := parsed.NativeRep()
	r := &renaming{factory: ast.NewExprFactory(), nextID: ast.MaxID(tree) + 1, frames: map[string]ast.Expr{}, written: map[string]string{}}
	r.rename(tree.Expr(), s.names)
	errs := common.NewErrors(common.NewTextSource(source))
	report := func(x ast.Expr, format string, args ...any) {
		errs.ReportErrorAtID(x.ID(), tree.SourceInfo().GetStartLocation(x.ID()), format, args...)
	}
	for _, u := range r.unknown {
		report(u.Expr, "graph %s has no node %q; it has %s", u.graph, u.AsSelect().FieldName(), strings.Join(u.nodes, ", "))
	}
	if frames := slices.Sorted(maps.Keys(r.frames)); len(frames) > 1 {
		first, last := frames[0], frames[len(frames)-1]
		report(r.frames[last], "reads %s and %s, which are nodes of different graphs; compute one of the two in a def, and read that", r.written[first], r.written[last])
	}
	return parsed, cel.NewIssues(errs)
}

// compile parses and checks an expression.
func (s *Scope) compile(env *cel.Env, source string) (*cel.Ast, *cel.Issues) {
	parsed, issues := s.parse(env, source)
	if issues.Err() != nil {
		return nil, issues
	}
	return env.Check(parsed)
}

// renaming renames the names in a syntax tree.
type renaming struct {
	factory ast.ExprFactory
	nextID  int64
	// frames has an expression that reads a name of each frame, and written how its author writes that.
	frames  map[string]ast.Expr
	written map[string]string
	unknown []unknownNode
}

// unknownNode is a selection of a node that a graph does not have.
type unknownNode struct {
	ast.Expr
	graph string
	nodes []string
}

func (r *renaming) rename(x ast.Expr, names Namespace) {
	switch x.Kind() {
	case ast.IdentKind:
		if to, is := names.Names[x.AsIdent()]; is {
			r.replace(x, to, x.AsIdent())
		} else if graph, is := names.Graphs[x.AsIdent()]; is {
			r.see(x, frameOf(graph), x.AsIdent())
			x.SetKindCase(r.mapOf(graph))
		}
	case ast.SelectKind:
		if graph, written, is := graphOf(x.AsSelect().Operand(), names); is && !x.AsSelect().IsTestOnly() {
			if to, has := graph.Names[x.AsSelect().FieldName()]; has {
				r.replace(x, to, written+"."+x.AsSelect().FieldName())
				return
			}
			if !graph.Has(x.AsSelect().FieldName()) {
				r.unknown = append(r.unknown, unknownNode{x, written, slices.Sorted(maps.Keys(graph.Names))})
			}
		}
		r.rename(x.AsSelect().Operand(), names)
	case ast.CallKind:
		if x.AsCall().IsMemberFunction() {
			r.rename(x.AsCall().Target(), names)
		}
		r.renameAll(x.AsCall().Args(), names)
	case ast.ListKind:
		r.renameAll(x.AsList().Elements(), names)
	case ast.MapKind:
		for _, entry := range x.AsMap().Entries() {
			r.renameAll([]ast.Expr{entry.AsMapEntry().Key(), entry.AsMapEntry().Value()}, names)
		}
	case ast.StructKind:
		for _, field := range x.AsStruct().Fields() {
			r.rename(field.AsStructField().Value(), names)
		}
	case ast.ComprehensionKind:
		r.renameComprehension(x.AsComprehension(), names)
	default: // literals
	}
}

func (r *renaming) renameAll(all []ast.Expr, names Namespace) {
	for _, x := range all {
		r.rename(x, names)
	}
}

func (r *renaming) renameComprehension(c ast.ComprehensionExpr, names Namespace) {
	r.renameAll([]ast.Expr{c.IterRange(), c.AccuInit()}, names)
	within := names.without([]Declaration{{Name: c.IterVar()}, {Name: c.IterVar2()}, {Name: c.AccuVar()}})
	r.renameAll([]ast.Expr{c.LoopCondition(), c.LoopStep()}, within)
	r.rename(c.Result(), names.without([]Declaration{{Name: c.AccuVar()}}))
}

// graphOf returns the nested graph that an expression names, and how its author writes that.
func graphOf(x ast.Expr, names Namespace) (Namespace, string, bool) {
	switch x.Kind() {
	case ast.IdentKind:
		graph, is := names.Graphs[x.AsIdent()]
		return graph, x.AsIdent(), is
	case ast.SelectKind:
		outer, written, is := graphOf(x.AsSelect().Operand(), names)
		if !is || x.AsSelect().IsTestOnly() {
			return Namespace{}, "", false
		}
		graph, is := outer.Graphs[x.AsSelect().FieldName()]
		return graph, written + "." + x.AsSelect().FieldName(), is
	default:
		return Namespace{}, "", false
	}
}

// graphNamed returns the nested graph that an expression names.
func (e *Env) graphNamed(source string) (Namespace, bool) {
	if len(e.names.Graphs) == 0 {
		return Namespace{}, false
	}
	parsed, issues := e.cel.Parse(source)
	if issues.Err() != nil {
		return Namespace{}, false
	}
	graph, _, is := graphOf(parsed.NativeRep().Expr(), e.names)
	return graph, is
}

func frameOf(graph Namespace) string {
	for _, name := range graph.Names {
		return name.Frame
	}
	for _, below := range graph.Graphs {
		return frameOf(below)
	}
	return ""
}

func (r *renaming) see(x ast.Expr, frame, written string) {
	r.frames[frame], r.written[frame] = x, written
}

func (r *renaming) replace(x ast.Expr, to Name, written string) {
	r.see(x, to.Frame, written)
	x.SetKindCase(r.factory.NewIdent(x.ID(), to.Declared))
}

// mapOf is a map of all nodes of a graph.
func (r *renaming) mapOf(graph Namespace) ast.Expr {
	var entries []ast.EntryExpr
	add := func(name string, value ast.Expr) {
		entries = append(entries, r.factory.NewMapEntry(r.id(), r.factory.NewLiteral(r.id(), types.String(name)), value, false))
	}
	for _, name := range slices.Sorted(maps.Keys(graph.Names)) {
		add(name, r.factory.NewIdent(r.id(), graph.Names[name].Declared))
	}
	for _, name := range slices.Sorted(maps.Keys(graph.Graphs)) {
		add(name, r.mapOf(graph.Graphs[name]))
	}
	return r.factory.NewMap(r.id(), entries)
}

func (r *renaming) id() int64 {
	r.nextID++
	return r.nextID
}
