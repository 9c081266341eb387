package gotemplating

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// unavailable are the functions of sprig that would read something of the controllers.
var unavailable = []string{"env", "expandenv", "getHostByName"}

// functions returns all functions of templates, bounded.
func (e *execution) functions(t *template.Template) template.FuncMap {
	all := template.FuncMap{
		// These of text/template, whose results can be large.
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,

		"include": func(name string, data any) (string, error) {
			if _, err := e.enter(includeLevels); err != nil {
				return "", err
			}
			defer e.leave(includeLevels)
			var out output
			err := t.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"randomChoice":                 randomChoice,
		"toYaml":                       toYAML,
		"fromYaml":                     fromYAML,
		"setResourceNameAnnotation":    func(name string) string { return nameAnnotation + ": " + name },
		"getResourceCondition":         conditionOf,
		"getCompositeResource":         compositeResource,
		"getComposedResource":          composedResource,
		"getComposedConnectionDetails": connectionDetails,
		"getExtraResources":            requiredResources,
		"getExtraResourcesFromContext": requiredResourcesOfContext,
		"getCredentialData":            credentialData,
	}
	maps.Copy(all, sprig.TxtFuncMap())
	for _, name := range unavailable {
		delete(all, name)
	}
	for name, function := range all {
		all[name] = e.wrap(name, function)
	}
	return all
}

// wrap counts the work of a function, and refuses a call with a result that is too large. A panic in a function of a template is its error.
func (e *execution) wrap(name string, function any) any {
	f := reflect.ValueOf(function)
	return reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
		must(e.before(name, args))
		call := f.Call
		if f.Type().IsVariadic() {
			call = f.CallSlice
		}
		out := call(args)
		must(e.after(name, out[0]))
		return out
	}).Interface()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (e *execution) before(name string, args []reflect.Value) error {
	if err := e.spend(stepWork); err != nil || shallow[name] {
		return err
	}
	measured := make([]int, len(args))
	for i, arg := range args {
		n, err := e.measure(arg, 0)
		if err != nil {
			return err
		}
		if err := e.spend(n); err != nil {
			return err
		}
		measured[i] = n
	}
	cost := costs[name]
	if cost == nil {
		return nil
	}
	result, work, err := cost(args, measured)
	switch {
	case err != nil:
		return err
	case result > maxText:
		return fmt.Errorf("the result has more than %d bytes", maxText)
	}
	return e.spend(result + work)
}

func (e *execution) after(name string, result reflect.Value) error {
	if result.Kind() == reflect.Interface {
		result = result.Elem()
	}
	switch result.Kind() {
	case reflect.String:
		if result.Len() > maxText {
			return fmt.Errorf("the result has more than %d bytes", maxText)
		}
		return e.spend(result.Len())
	case reflect.Slice, reflect.Map:
		if result.Len() > maxItems {
			return fmt.Errorf("the result has more than %d items", maxItems)
		}
		if !returnsPart[name] {
			return e.spend(stepWork * result.Len())
		}
	default:
	}
	return nil
}

func randomChoice(choices ...string) (string, error) {
	if len(choices) == 0 {
		return "", errors.New("there is nothing to choose from")
	}
	return choices[rand.N(len(choices))], nil //nolint:gosec // it is no secret
}

func toYAML(v any) (string, error) {
	text, err := yaml.Marshal(v)
	return string(text), err
}

func fromYAML(text string) (v any, err error) {
	if err := bounded.Check([]byte(text), maxText); err != nil {
		return nil, err
	}
	err = yaml.Unmarshal([]byte(text), &v)
	return v, err
}

// condition has the fields that templates read from the result of getResourceCondition.
type condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message,omitempty"`
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
}

// conditionOf returns a condition of an object, or of a resource with an object; its status is Unknown if it has none of that type.
func conditionOf(conditionType string, resource map[string]any) condition {
	status := at[map[string]any](resource, "resource", "status")
	if status == nil {
		status, _ = resource["status"].(map[string]any)
	}
	all, _ := status["conditions"].([]any)
	for _, one := range all {
		fields, _ := one.(map[string]any)
		if fields["type"] != conditionType {
			continue
		}
		text := func(field string) string { s, _ := fields[field].(string); return s }
		found := condition{Type: conditionType, Status: text("status"), Reason: text("reason"), Message: text("message")}
		found.LastTransitionTime.Time, _ = time.Parse(time.RFC3339, text("lastTransitionTime"))
		found.ObservedGeneration, _ = fields["observedGeneration"].(int64)
		return found
	}
	return condition{Type: conditionType, Status: "Unknown"}
}

// at returns a value in the request, of the expected type; the zero value if there is none.
func at[V any](request map[string]any, fields ...string) (value V) {
	for _, field := range fields[:len(fields)-1] {
		request, _ = request[field].(map[string]any)
	}
	value, _ = request[fields[len(fields)-1]].(V)
	return value
}

func compositeResource(request map[string]any) map[string]any {
	return at[map[string]any](request, "observed", "composite", "resource")
}

func composedResource(request map[string]any, name string) map[string]any {
	return at[map[string]any](request, "observed", "resources", name, "resource")
}

func connectionDetails(request map[string]any, name string) map[string]any {
	return at[map[string]any](request, "observed", "resources", name, "connectionDetails")
}

func requiredResources(request map[string]any, name string) []any {
	if found := at[[]any](request, "requiredResources", name, "items"); found != nil {
		return found
	}
	return at[[]any](request, "extraResources", name, "items")
}

func requiredResourcesOfContext(request map[string]any, name string) []any {
	return at[[]any](request, "context", extraResourcesKey, name, "items")
}

func credentialData(request map[string]any, name string) map[string][]byte {
	var out map[string][]byte
	for key, value := range at[map[string]any](request, "credentials", name, "credentialData", "data") {
		text, _ := value.(string)
		if data, err := base64.StdEncoding.DecodeString(text); err == nil {
			if out == nil {
				out = map[string][]byte{}
			}
			out[key] = data
		}
	}
	return out
}
