package expr

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"

	"github.com/espalier-dev/espalier/internal/object"
)

// Branches records which branches of conditional expressions, c ? a : b, evaluations take. It evaluates each
// expression that has some a second time. It is for tests of definitions; it is not safe for concurrent use.
type Branches struct {
	programs map[*Program]*recordedProgram
}

// Branch is a conditional expression, and which of its branches were taken.
type Branch struct {
	// At is the field, and Condition the text of the condition.
	At        object.Path
	Condition string
	// True and False say that the condition has had the value.
	True, False bool
}

// recordedProgram is a program that records its conditions; prog is nil if it has none.
type recordedProgram struct {
	prog     cel.Program
	branches []*Branch
}

// record evaluates an expression with the values that it was evaluated with.
func (b *Branches) record(p *Program, vars activation) {
	if b == nil {
		return
	}
	r := b.programs[p]
	if r == nil {
		if b.programs == nil {
			b.programs = map[*Program]*recordedProgram{}
		}
		r = p.recorded()
		b.programs[p] = r
	}
	if r.prog != nil {
		_, _, _ = r.prog.Eval(vars) // the program itself has the result
	}
}

// List returns the conditional expressions of what was evaluated, sorted by field and place.
func (b *Branches) List() []Branch {
	var out []Branch
	for _, r := range b.programs {
		for _, one := range r.branches {
			out = append(out, *one)
		}
	}
	slices.SortStableFunc(out, func(a, b Branch) int { return cmp.Compare(a.At, b.At) })
	return out
}

// recorded compiles the expression again, such that it records its conditions.
func (p *Program) recorded() *recordedProgram {
	out := &recordedProgram{}
	if !strings.Contains(p.source, "?") {
		return out
	}
	checker, err := p.scope.checker()
	if err != nil {
		return out // it was made before
	}
	checked, issues := p.scope.compile(checker, p.source)
	if issues.Err() != nil {
		return out // it compiled before
	}
	tree := checked.NativeRep()
	c := &collector{isDeclared: p.scope.declares}
	c.visit(tree.Expr(), nil, nil)
	conditions := map[int64]*Branch{}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind || x.AsCall().FunctionName() != operators.Conditional {
			return
		}
		condition := x.AsCall().Args()[0]
		text, err := parser.Unparse(condition, tree.SourceInfo())
		if err != nil {
			text = p.source
		}
		branch := &Branch{At: p.at, Condition: strings.Join(strings.Fields(text), " ")}
		conditions[condition.ID()] = branch
		out.branches = append(out.branches, branch)
	}))
	if len(out.branches) == 0 {
		return out
	}
	prog, err := p.scope.planner.Program(checked, cel.CostLimit(p.scope.limits.Cost), cel.CustomDecoratorV2(c.decorate),
		cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
			if branch := conditions[i.ID()]; branch != nil {
				return recordedCondition{i, branch}, nil
			}
			return i, nil
		}))
	if err == nil {
		out.prog = prog
	}
	return out
}

type recordedCondition struct {
	interpreter.InterpretableV2
	branch *Branch
}

// Eval implements interpreter.Interpretable.
func (c recordedCondition) Eval(vars interpreter.Activation) ref.Val {
	return c.note(c.InterpretableV2.Eval(vars))
}

// Exec implements interpreter.InterpretableV2.
func (c recordedCondition) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return c.note(c.InterpretableV2.Exec(frame))
}

func (c recordedCondition) note(value ref.Val) ref.Val {
	if is, ok := value.(types.Bool); ok {
		c.branch.True, c.branch.False = c.branch.True || bool(is), c.branch.False || !bool(is)
	}
	return value
}
