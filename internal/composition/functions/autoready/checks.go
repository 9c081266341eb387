package autoready

import (
	"fmt"
	"maps"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/object/regexps"
)

// celChecks are the author's readiness checks by kind: CEL expressions of the object with a
// boolean result. They replace the built-in check of the kind.
type celChecks map[string]string

func checkKey(kind schema.GroupVersionKind) string {
	return kind.Group + "_" + kind.Version + "_" + kind.Kind
}

// checks are the checks in the input and in the field of the pipeline's context that the
// input names; those in the input win.
func (in *input) checks(context map[string]any) (celChecks, error) {
	all := celChecks{}
	if in.ChecksInside != "" {
		value, err := fieldpath.Get(context, in.ChecksInside)
		if err != nil {
			return in.Checks, fmt.Errorf("celHealthCheckCustomizationFrom: cannot read the field: %w", err)
		}
		named, ok := value.(map[string]any)
		if !ok {
			return in.Checks, fmt.Errorf("celHealthCheckCustomizationFrom: %s must be an object in the pipeline's context", in.ChecksInside)
		}
		for key, text := range named {
			if all[key], ok = text.(string); !ok {
				return in.Checks, fmt.Errorf("celHealthCheckCustomizationFrom: %s: %s must be a string in the pipeline's context", in.ChecksInside, diag.Truncate(key, 100))
			}
		}
	}
	maps.Copy(all, in.Checks)
	return all, nil
}

// ready is the readiness of an observed object, by the check of its kind if there is one. An object that doesn't pass
// its check, or whose check cannot be evaluated, is not ready. While the status is for an older generation, readiness
// stays unspecified.
func (c celChecks) ready(o *unstructured.Unstructured) (call.Ready, error) {
	text, ok := c[checkKey(o.GroupVersionKind())]
	switch {
	case !ok && Ready(o):
		return call.True, nil
	case !ok, health.Stale(o):
		return call.Unspecified, nil
	}
	is, err := evaluate(text, o.Object)
	switch {
	case err != nil:
		return call.False, fmt.Errorf("the health check of %s cannot be evaluated: %s", checkKey(o.GroupVersionKind()), diag.Truncate(err.Error(), 1000))
	case is:
		return call.True, nil
	}
	return call.False, nil
}

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.Variable("object", cel.DynType))
})

// maxCost bounds a check, in CEL's cost units.
const maxCost = 100_000

// costs counts the copies that counted repetitions make of a pattern, instead of its characters.
type costs struct{}

// CallCost implements interpreter.ActualCostEstimator.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != "matches" {
		return nil
	}
	return regexps.Cost(args[0], args[1])
}

func evaluate(text string, object map[string]any) (bool, error) {
	env, err := environment()
	if err != nil {
		return false, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.CostTracking(costs{}), cel.CustomDecoratorV2(regexps.Bound))
	if err != nil {
		return false, err
	}
	value, _, err := program.Eval(map[string]any{"object": object})
	if err != nil {
		return false, err
	}
	is, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the result must be a boolean, not %s", value.Type().TypeName())
	}
	return is, nil
}
