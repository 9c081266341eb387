package expr

import (
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/espalier-dev/espalier/internal/graph/expr/plain"
	"github.com/espalier-dev/espalier/internal/object"
)

// Program is a checked expression. It is immutable and safe for concurrent use.
type Program struct {
	source string
	at     object.Path
	scope  *Scope
	typ    *cel.Type
	refs   []Ref
	omits  bool
	// isPath says that the whole expression is a path, the only one of refs. It is then followed
	// without CEL, which is faster and returns the value as its object has it: a
	// duration of 1h stays 1h.
	isPath  bool
	program cel.Program
}

// Source returns the text of the expression.
func (p *Program) Source() string { return p.source }

// At returns the field that contains the expression.
func (p *Program) At() object.Path { return p.at }

// Type returns the type of the result.
func (p *Program) Type() *cel.Type { return p.typ }

// ItemType returns the item type of the list that the expression gives; nil if the result
// is not a list or of unknown type.
func (p *Program) ItemType() *cel.Type {
	t := p.typ
	if inner, ok := unwrapped(t); ok {
		t = inner
	}
	if t.Kind() != cel.ListKind {
		return nil
	}
	return t.Parameters()[0]
}

// Omits reports whether the expression calls omit().
func (p *Program) Omits() bool { return p.omits }

// Refs returns the paths that the expression reads, sorted.
func (p *Program) Refs() []Ref { return p.refs }

// Eval is EvalWithin without a budget.
func (p *Program) Eval(vars map[string]any) (any, error) { return p.EvalWithin(nil, vars) }

// EvalWithin evaluates the expression. vars are JSON and are not changed. The result is JSON
// that shares nothing with vars, or Absent. The error is a *Pending, a *NeedsSkipped, a
// *Failure, a *LimitExceeded, or, with a budget, a *BudgetExceeded or the error with which the budget ended.
func (p *Program) EvalWithin(b *Budget, vars map[string]any) (any, error) {
	if err := b.check(p); err != nil {
		return nil, err
	}
	if path, is := p.Path(); is {
		b.spendCost(1)
		if vars[path.Root] == Skipped {
			return nil, &NeedsSkipped{path.Root}
		}
		value, missing := p.scope.followPath(path, vars)
		if missing != nil {
			return nil, &Pending{Refs: []Ref{*missing}}
		}
		if err := b.spendBytes(p.at, plain.Size(value)); err != nil {
			return nil, err
		}
		return plain.Copy(value), nil
	}
	in := b.activate(p.scope, vars, nil)
	b.record(p, in)
	out, err := p.run(b, in)
	if err != nil {
		return nil, p.evalError(b, err, vars)
	}
	value, err := plain.FromCEL(out, p.scope.limits.Size)
	if errors.Is(err, plain.ErrSize) {
		return nil, &LimitExceeded{At: p.at, Expr: p.source, Limit: "Size", Max: uint64(p.scope.limits.Size)}
	}
	if err != nil {
		return nil, p.evalError(b, err, vars)
	}
	if err := b.spendBytes(p.at, plain.Size(value)); err != nil {
		return nil, err
	}
	return value, nil
}

// run runs the CEL program and charges its cost to the budget.
func (p *Program) run(b *Budget, vars activation) (ref.Val, error) {
	out, details, err := p.program.Eval(vars)
	cost := uint64(untrackedCost)
	if tracked := details.ActualCost(); tracked != nil {
		cost = *tracked
	}
	b.spendCost(cost)
	return out, err
}

func (p *Program) evalError(b *Budget, err error, vars map[string]any) error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return &LimitExceeded{At: p.at, Expr: p.source, Limit: "Cost", Max: p.scope.limits.Cost}
	}
	if ended := b.check(p); ended != nil {
		return ended
	}
	track := &tracker{}
	// The evaluation fails again; the tracker records what it reads.
	_, _ = p.run(b, b.activate(p.scope, vars, track))
	if missing := track.missing(p.refs); len(missing) > 0 {
		return &Pending{Refs: missing}
	}
	if needs := needsSkipped(err); needs != nil {
		return needs
	}
	return p.failure(err)
}

func (p *Program) failure(err error) error {
	return &Failure{At: p.at, Expr: p.source, Reason: err, program: p}
}

// activation gives CEL the variables, typed by their declarations.
type activation struct {
	scope    *Scope
	vars     map[string]any
	track    *tracker
	clock    *clock
	progress Progress
}

// ResolveName returns the value of a declared name.
func (a activation) ResolveName(name string) (any, bool) {
	s, declared := a.scope.vars[name]
	switch {
	case name == nowVariable && a.clock != nil:
		return moment{clock: a.clock}, true
	case name == progressVariable && a.progress != nil:
		return progressValue{a.progress}, true
	case !declared:
		return nil, false
	}
	value, ok := a.vars[name]
	if value == Skipped {
		return skippedValue{name}, true
	}
	if a.track == nil {
		return wrapRoot(value, ok, s, a.scope.parts[name], nil)
	}
	if !ok {
		a.track.misses = append(a.track.misses, Ref{Root: name})
	} else if value == nil {
		a.track.nulls = append(a.track.nulls, Ref{Root: name})
	}
	return wrapRoot(value, ok, s, a.scope.parts[name], &trail{tracker: a.track, root: name})
}

func wrapRoot(value any, ok bool, s *shape, p objectPart, t *trail) (any, bool) {
	if !ok {
		return nil, false
	}
	return wrap(value, s, p, t), true
}

// Parent returns nil: no other variables exist.
func (a activation) Parent() interpreter.Activation { return nil }

// followPath returns the value at a path, or the shortest part of the path that is missing.
func (s *Scope) followPath(r Ref, vars map[string]any) (value any, missing *Ref) {
	at, in := s.vars[r.Root], s.parts[r.Root]
	value, ok := vars[r.Root]
	if !ok {
		return nil, &Ref{Root: r.Root}
	}
	for i, step := range r.Path {
		if value == nil {
			return nil, &Ref{Root: r.Root, Path: r.Path[:i]}
		}
		value, at, ok = followStep(value, at, step)
		if !ok {
			return nil, &Ref{Root: r.Root, Path: r.Path[:i+1]}
		}
		in = in.at(step)
	}
	return in.shown(value), nil
}

func followStep(value any, s *shape, step Step) (any, *shape, bool) {
	if step.Name == "" {
		list, _ := value.([]any)
		if step.Index < 0 || step.Index >= len(list) {
			return nil, nil, false
		}
		below, _ := s.item()
		return list[step.Index], below, true
	}
	found, ok := (&mapping{m: asMap(value), shape: s}).lookup(step.Name)
	below, _ := s.field(step.Name)
	return found, below, ok
}

func asMap(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}
