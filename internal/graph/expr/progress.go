package expr

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// progressVariable has the Progress that calls of ready() and updated() ask. No expression can contain the name.
const progressVariable = "@progress"

var (
	progressType    = cel.OpaqueType("resource.Progress")
	progressMethods = []string{"ready", "updated"}
)

// Progress reports whether an object is ready, and whether it is updated: as its definition wants it now. It knows the
// objects of resources, and no others.
type Progress func(object map[string]any) (ready, updated, known bool)

// WithProgress returns an Env whose expressions may call ready() and updated() on objects. Their evaluation needs
// Budget.SetProgress.
func (e *Env) WithProgress() *Env {
	scope := *e.Scope
	scope.progress = true
	return &Env{Scope: &scope, cel: e.cel, empty: e.empty}
}

// progressOptions declare the methods: macros turn them into calls of functions with the object and the Progress.
func progressOptions() []cel.EnvOption {
	options := []cel.EnvOption{cel.Variable(progressVariable, progressType)}
	for _, method := range progressMethods {
		function := "@" + method
		expand := func(eh cel.MacroExprFactory, target ast.Expr, _ []ast.Expr) (ast.Expr, *cel.Error) {
			return eh.NewCall(function, target, eh.NewIdent(progressVariable)), nil
		}
		options = append(options,
			cel.Macros(cel.ReceiverMacro(method, 0, expand)),
			cel.Function(function, cel.Overload(function+"_any", []*cel.Type{cel.TypeParamType("T"), progressType}, cel.BoolType,
				cel.BinaryBinding(func(of, progress ref.Val) ref.Val { return askProgress(method, of, progress) }))))
	}
	return options
}

func askProgress(method string, of, progress ref.Val) ref.Val {
	asked, _ := progress.(progressValue)
	if m, is := of.(*mapping); is && asked.of != nil {
		if ready, updated, known := asked.of(m.m); known {
			return types.Bool(method == "ready" && ready || method == "updated" && updated)
		}
	}
	return types.NewErr("%s() is only known of an object of a resource", method)
}

// progressProblems lists what is wrong with the calls of ready() and updated() in an expression.
func (s *Scope) progressProblems(tree *ast.AST, source string, at object.Path) (problems diag.List) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		method, isInternal := strings.CutPrefix(e.AsCall().FunctionName(), "@")
		if !isInternal || !slices.Contains(progressMethods, method) {
			return
		}
		add := func(problem, expected string) {
			problems = append(problems, diag.Diagnostic{Path: at, Expr: source, Problem: method + "() " + problem, Expected: expected})
		}
		switch of := tree.GetType(e.AsCall().Args()[0].ID()); {
		case !s.progress:
			add("is only available in propagateWhen", "a condition on fields of the object")
		case of.Kind() == cel.ListKind:
			add("is called on a list", "the object of a resource, as in all(o, o."+method+"())")
		case of.Kind() != cel.StructKind && of.Kind() != cel.MapKind && of.Kind() != cel.DynKind:
			add("is called on a "+typeText(of), "the object of a resource")
		}
	}))
	return problems
}

// progressValue is the value of progressVariable. Expressions can only pass it on.
type progressValue struct{ of Progress }

// ConvertToNative implements ref.Val.
func (progressValue) ConvertToNative(reflect.Type) (any, error) { return nil, errProgress }

// ConvertToType implements ref.Val.
func (progressValue) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errProgress) }

// Equal implements ref.Val.
func (progressValue) Equal(ref.Val) ref.Val { return types.False }

// Type implements ref.Val.
func (progressValue) Type() ref.Type { return progressType }

// Value implements ref.Val.
func (progressValue) Value() any { return nil }

var errProgress = fmt.Errorf("the progress of objects is not a value")
