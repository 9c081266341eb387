package expr

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
)

// Scope is what remains of an environment in the programs that it has compiled: the declared names and
// their types. CEL's own environment weighs many times as much, and is needed only to compile. It is
// immutable and safe for concurrent use.
type Scope struct {
	// planner makes programs of checked expressions. Programs keep it, so it declares functions and no
	// names, and all environments with the same functions share it.
	planner     *cel.Env
	conditional bool
	// progress says that expressions may call ready() and updated(); conditional, the functions of conditions.
	progress bool
	limits   Limits
	shapes   *shapes
	vars     map[string]*shape
	// parts are the parts of the declared names whose values have hidden entries.
	parts map[string]objectPart
	// missingFieldHints are by declared name and field.
	missingFieldHints map[string]map[string]string
	// names are what names in expressions stand for.
	names Namespace
}

// emptyChecker returns a CEL environment with the types of the scope, and without names.
func (s *Scope) emptyChecker(library *cel.Env) (*cel.Env, error) {
	empty, err := library.Extend(
		cel.CustomTypeProvider(provider{Provider: library.CELTypeProvider(), shapes: s.shapes}),
		// The parser recurses several times for each bracket: limits.Depth applies first.
		cel.ParserRecursionLimit(250+4*s.limits.Depth),
		cel.ParserExpressionSizeLimit(s.limits.Length),
	)
	if err != nil {
		return nil, fmt.Errorf("the expression environment: %w", err)
	}
	return empty, nil
}

// variables declares the names of the scope, except the already declared ones.
func (s *Scope) variables(declared func(name string) bool) []cel.EnvOption {
	var options []cel.EnvOption
	for name, shape := range s.vars {
		if !declared(name) {
			options = append(options, cel.Variable(name, shape.celType()))
		}
	}
	return options
}

// checker makes the CEL environment that parses and checks expressions of the scope, which takes milliseconds.
func (s *Scope) checker() (*cel.Env, error) {
	library, err := base()
	if err != nil {
		return nil, fmt.Errorf("the expression library: %w", err)
	}
	empty, err := s.emptyChecker(library)
	if err != nil {
		return nil, err
	}
	options := s.variables(func(string) bool { return false })
	if s.conditional {
		options = append(options, conditionOptions(conditionShapeOf(s.shapes))...)
	}
	return empty.Extend(options...)
}

// Names returns the declared names, sorted.
func (s *Scope) Names() []string { return slices.Sorted(maps.Keys(s.vars)) }

func (s *Scope) declares(name string) bool {
	_, ok := s.vars[name]
	return ok
}

func (s *Scope) shapeAt(r Ref) (*shape, bool) {
	at, ok := s.vars[r.Root]
	for _, step := range r.Path {
		if !ok {
			return nil, false
		}
		switch {
		case step.Each && at.kindOf() == ofMap:
			at = at.elem
		case step.Each || step.Name == "":
			at, ok = at.item()
		default:
			at, ok = at.field(step.Name)
		}
	}
	return at, ok
}
