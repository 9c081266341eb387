package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// keeps looks for secrets in what is stored or told.
func (l *life) keeps(said ...any) {
	for _, s := range said {
		text := ""
		switch s := s.(type) {
		case nil:
		case string:
			text = s
		case *external.OpError:
			if s != nil {
				text = s.Error()
			}
		case error:
			text = s.Error()
		default:
			raw, _ := json.Marshal(s) // what can't be encoded is told elsewhere
			text = string(raw)
		}
		for _, secret := range l.secrets {
			if secret != "" && strings.Contains(text, secret) {
				l.fails(NoSecrets, "there is one in %q", strings.ReplaceAll(text, secret, "<secret>"))
			}
		}
	}
}

// fitting looks whether what was seen can be stored.
func (l *life) fitting(o external.Observation) {
	for what, value := range map[string]map[string]any{"AtProvider": o.AtProvider, "LateInit": o.LateInit} {
		if problem := jsonProblem(value); problem != "" {
			l.fails(ObservationFits, "%s holds %s, which no JSON object of Kubernetes does: an int64, a float64, a []any or a map[string]any, say, does", what, problem)
			return
		}
	}
	if field := l.lost(o.AtProvider, "status", "atProvider"); field != "" {
		l.fails(ObservationFits, "AtProvider has the field %s, which the type of status.atProvider hasn't", field)
	}
	if len(o.LateInit) == 0 {
		return
	}
	wanted, _, _ := unstructured.NestedMap(l.object.Object, "spec", "forProvider")
	if !reflect.DeepEqual(execute.MissingFields(wanted, o.LateInit), o.LateInit) {
		l.fails(LateInitOfUnset, "it is %v, and spec.forProvider has %v already", o.LateInit, wanted)
	}
	if field := l.lost(o.LateInit, "spec", "forProvider"); field != "" {
		l.fails(LateInitOfUnset, "it has the field %s, which the type of spec.forProvider hasn't", field)
	}
}

// lost is a field that the kind's type doesn't keep.
func (l *life) lost(value map[string]any, path ...string) string {
	if len(value) == 0 {
		return ""
	}
	o := l.object.DeepCopy()
	was, _, _ := unstructured.NestedMap(o.Object, path...)
	if err := unstructured.SetNestedMap(o.Object, merged(was, value), path...); err != nil {
		return err.Error()
	}
	typed, err := l.typed(o.Object)
	if err != nil {
		return err.Error()
	}
	kept, _, _ := unstructured.NestedMap(typed, path...)
	return missing(value, kept)
}

// missing is a field that says something in want and isn't in got.
func missing(want, got map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value := want[key]
		below, isMap := value.(map[string]any)
		has, there := got[key]
		within, _ := has.(map[string]any)
		switch {
		case isMap && len(below) > 0:
			if field := missing(below, within); field != "" {
				return key + "." + field
			}
		case !there && !empty(value):
			return key
		}
	}
	return ""
}

func empty(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// jsonProblem is the type of something that an object of the API server can't hold.
func jsonProblem(value any) string {
	switch v := value.(type) {
	case nil, bool, string, int64, float64:
		return ""
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if problem := jsonProblem(v[key]); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		for _, item := range v {
			if problem := jsonProblem(item); problem != "" {
				return problem
			}
		}
		return ""
	}
	return fmt.Sprintf("a %T", value)
}
