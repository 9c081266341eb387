package expr

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// failureKinds say why functions have no result. The errors of CEL say more, but may quote values.
var failureKinds = map[string]string{
	"base64.decode":       "its argument is not base64; note that the data of a Secret is read decoded",
	"int":                 "its argument is not an integer",
	"uint":                "its argument is not an integer of 0 or more",
	"double":              "its argument is not a number",
	"bool":                "its argument is not a boolean",
	"string":              "its argument is not UTF-8 text",
	"timestamp":           "its argument is not a time of RFC 3339",
	"duration":            "its argument is not a duration",
	"json.unmarshal":      "its argument is not JSON",
	"quantity":            "its argument is not a quantity",
	"url":                 "its argument is not a URL",
	"ip":                  "its argument is not an IP address",
	"cidr":                "its argument is not a network",
	"semver":              "its argument is not a semantic version",
	"format":              "its arguments do not fit the format",
	"matches":             "the regular expression is invalid or takes too many steps",
	"find":                "the regular expression is invalid or takes too many steps",
	"findAll":             "the regular expression is invalid or takes too many steps",
	"lists.setAtIndex":    "the index is outside the list",
	"lists.insertAtIndex": "the index is outside the list",
	"lists.removeAtIndex": "the index is outside the list",
	mapInsert:             "two entries have the same key",
	operators.Index:       "there is no such item or key",
	operators.Divide:      "the divisor is zero, or the result is too large",
	operators.Modulo:      "the divisor is zero, or the result is too large",
	operators.Add:         "the result is too large, or the operands have different types",
	operators.Subtract:    "the result is too large, or the operands have different types",
	operators.Multiply:    "the result is too large, or the operands have different types",
}

// mapInsert is the function that the macros for maps expand to.
const mapInsert = "cel.@mapInsert"

// Kind names the function or the operator that failed and says why it may fail, without values.
func (f *Failure) Kind() string {
	var text notText
	if errors.As(f.Reason, &text) {
		return text.Error()
	}
	name := f.function()
	kind := failureKinds[name]
	if kind == "" {
		kind = "it has no result for these arguments"
	}
	if name == mapInsert {
		name = "transformMapEntry"
	}
	if shown, ok := operators.FindReverse(name); ok && shown != "" {
		name = shown
	}
	if name == operators.Index {
		name = "[]"
	}
	if name == "" {
		return "it has no value for these inputs"
	}
	return name + ": " + kind
}

// function is empty if the failed call is unknown.
func (f *Failure) function() string {
	var failed *types.Err
	if f.program == nil || !errors.As(f.Reason, &failed) || failed.NodeID() == 0 {
		return ""
	}
	scope := f.program.scope
	parsed, issues := scope.planner.Parse(f.Expr)
	if issues.Err() != nil {
		return "" // it compiled before
	}
	name := ""
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() != failed.NodeID() || e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		if name = call.FunctionName(); call.IsMemberFunction() && call.Target().Kind() == ast.IdentKind {
			if qualified := call.Target().AsIdent() + "." + name; !scope.declares(call.Target().AsIdent()) && scope.planner.HasFunction(qualified) {
				name = qualified
			}
		}
	}))
	return name
}

// missingTexts begin CEL's errors about what does not exist.
var missingTexts = []string{"no such key", "no such attribute", "no such field", "index out of bounds"}

// IsMissing reports whether the failure is that an item or a field does not exist, which other data may change.
func (f *Failure) IsMissing() bool {
	return slices.ContainsFunc(missingTexts, func(text string) bool { return strings.HasPrefix(f.Reason.Error(), text) })
}
