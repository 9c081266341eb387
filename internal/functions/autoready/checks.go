package autoready

import (
	"fmt"
	"maps"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/instance/health"
)

// checks are what authors say of readiness, in CEL: for each kind an expression of its
// object that is true or false. They go before what is known of the kind.
type checks map[string]string

// keyOf is by which the checks know a kind.
func keyOf(kind schema.GroupVersionKind) string {
	return kind.Group + "_" + kind.Version + "_" + kind.Kind
}

// checks are those of the input, and those of the pipeline's context that it names; its
// own go first.
func (in *input) checks(context map[string]any) (checks, error) {
	all := checks{}
	if in.ChecksInside != "" {
		value, err := fieldpath.Get(context, in.ChecksInside)
		if err != nil {
			return in.Checks, fmt.Errorf("celHealthCheckCustomizationFrom: nothing can be read there: %w", err)
		}
		named, ok := value.(map[string]any)
		if !ok {
			return in.Checks, fmt.Errorf("celHealthCheckCustomizationFrom: %s isn't an object in the pipeline's context", in.ChecksInside)
		}
		for key, text := range named {
			if all[key], ok = text.(string); !ok {
				return in.Checks, fmt.Errorf("celHealthCheckCustomizationFrom: %s isn't a text at %s in the pipeline's context", in.ChecksInside, diag.Cut(key, 100))
			}
		}
	}
	maps.Copy(all, in.Checks)
	return all, nil
}

// ready says whether an observed object is ready, by the check of its kind, if there is
// one. A check has the last word: an object isn't ready that doesn't pass it, nor one for
// which it can't be evaluated. Of a status of an older generation nothing is said.
func (c checks) ready(o *unstructured.Unstructured) (call.Ready, error) {
	text, ok := c[keyOf(o.GroupVersionKind())]
	switch {
	case !ok && Ready(o):
		return call.True, nil
	case !ok, health.Stale(o):
		return call.Unspecified, nil
	}
	is, err := holds(text, o.Object)
	switch {
	case err != nil:
		return call.False, fmt.Errorf("the health check of %s can't be evaluated: %s", keyOf(o.GroupVersionKind()), diag.Cut(err.Error(), 1000))
	case is:
		return call.True, nil
	}
	return call.False, nil
}

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.Variable("object", cel.DynType))
})

// mostCost bounds what a check may cost.
const mostCost = 100_000

// holds evaluates an expression of an object.
func holds(text string, object map[string]any) (bool, error) {
	env, err := environment()
	if err != nil {
		return false, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := env.Program(ast, cel.CostLimit(mostCost))
	if err != nil {
		return false, err
	}
	value, _, err := program.Eval(map[string]any{"object": object})
	if err != nil {
		return false, err
	}
	is, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("it is neither true nor false, but a %s", value.Type().TypeName())
	}
	return is, nil
}
