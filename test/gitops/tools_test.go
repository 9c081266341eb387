package gitops

import (
	"fmt"
	"testing"

	flux "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/espalier-dev/espalier/internal/observe/gitops"
)

// verdict is what tools find about an object.
type verdict struct {
	// Kstatus is by the library of SIG CLI; the fork of Flux and Helm must find the same.
	Kstatus string `json:"kstatus"`
	ArgoCD  string `json:"argocd"`
	Flux    string `json:"flux"`
}

func verdictOf(t *testing.T, o *unstructured.Unstructured) verdict {
	t.Helper()
	computed, err := kstatus.Compute(o)
	if err != nil {
		t.Fatal(err)
	}
	forked, err := flux.Compute(o)
	if err != nil {
		t.Fatal(err)
	}
	if string(computed.Status) != string(forked.Status) {
		t.Errorf("kstatus finds %s, and its fork %s", computed.Status, forked.Status)
	}
	status, message := argoCD(t, o)
	if status != "Healthy" && message == "" {
		t.Errorf("Argo CD shows no message for %s", status)
	}
	return verdict{string(computed.Status), status, fluxStatus(t, o)}
}

// argoCD runs the script as Argo CD does: without libraries but the basic ones, with the object in a global variable.
func argoCD(t *testing.T, o *unstructured.Unstructured) (status, message string) {
	t.Helper()
	if o.GetDeletionTimestamp() != nil {
		return "Progressing", "Pending deletion" // Argo CD runs no script
	}
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	l.SetGlobal("obj", luaValue(l, o.Object))
	if err := l.DoString(gitops.Script); err != nil {
		t.Fatal(err)
	}
	table, isTable := l.Get(-1).(*lua.LTable)
	if !isTable {
		t.Fatalf("the script returns %s", l.Get(-1).Type())
	}
	text := func(field string) string {
		value, isText := table.RawGetString(field).(lua.LString)
		if !isText {
			t.Errorf("%s is no text: %v", field, table.RawGetString(field))
		}
		return string(value)
	}
	switch status = text("status"); status {
	case "Healthy", "Progressing", "Degraded", "Suspended":
	default:
		t.Errorf("%q is no status of Argo CD", status)
	}
	return status, text("message")
}

func luaValue(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		out := l.NewTable()
		for _, item := range value {
			out.Append(luaValue(l, item))
		}
		return out
	case map[string]any:
		out := l.NewTable()
		for key, item := range value {
			out.RawSetString(key, luaValue(l, item))
		}
		return out
	default:
		return lua.LNil
	}
}

// fluxStatus evaluates the expressions in the environment and the order of Flux.
func fluxStatus(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	observed, isSet, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if isSet && observed != o.GetGeneration() {
		return "InProgress"
	}
	e := gitops.ExpressionsOf(o.GroupVersionKind())
	for _, step := range []struct{ expression, status string }{{e.InProgress, "InProgress"}, {e.Failed, "Failed"}, {e.Current, "Current"}} {
		holds, err := evaluate(step.expression, o.Object)
		if err != nil {
			t.Errorf("%s: %v", step.expression, err)
		}
		if holds {
			return step.status
		}
	}
	return "InProgress"
}

func evaluate(expression string, object map[string]any) (bool, error) {
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders())
	if err != nil {
		return false, err
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := env.Program(parsed, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return false, err
	}
	value, _, err := program.Eval(object)
	if err != nil {
		return false, err
	}
	holds, isBool := value.(types.Bool)
	if !isBool {
		return false, fmt.Errorf("the value is %v", value)
	}
	return bool(holds), nil
}
