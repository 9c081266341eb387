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

// checkSecrets checks that values that are stored or reported contain none of the secrets.
func (s *scenario) checkSecrets(values ...any) {
	for _, v := range values {
		text := ""
		switch v := v.(type) {
		case nil:
		case string:
			text = v
		case *external.OpError:
			if v != nil {
				text = v.Error()
			}
		case error:
			text = v.Error()
		default:
			raw, _ := json.Marshal(v) // checkObservation reports what cannot be encoded
			text = string(raw)
		}
		for _, secret := range s.secrets {
			if secret != "" && strings.Contains(text, secret) {
				s.fail(NoSecrets, "%q contains a secret", strings.ReplaceAll(text, secret, "<secret>"))
			}
		}
	}
}

// checkObservation checks that an observation can be stored in the managed resource.
func (s *scenario) checkObservation(o external.Observation) {
	for field, value := range map[string]map[string]any{"AtProvider": o.AtProvider, "LateInit": o.LateInit} {
		if invalid := invalidJSON(value); invalid != "" {
			s.fail(ObservationIsValid, "%s contains a value of type %s: use string, bool, int64, float64, []any or map[string]any", field, invalid)
			return
		}
	}
	if field := s.findDropped(o.AtProvider, "status", "atProvider"); field != "" {
		s.fail(ObservationIsValid, "AtProvider has the field %s, and the type of status.atProvider does not", field)
	}
	if len(o.LateInit) == 0 {
		return
	}
	wanted, _, _ := unstructured.NestedMap(s.object.Object, "spec", "forProvider")
	if !reflect.DeepEqual(execute.MissingFields(wanted, o.LateInit), o.LateInit) {
		s.fail(LateInitOnlyUnset, "LateInit is %v, and spec.forProvider already has %v", o.LateInit, wanted)
	}
	if field := s.findDropped(o.LateInit, "spec", "forProvider"); field != "" {
		s.fail(LateInitOnlyUnset, "LateInit has the field %s, and the type of spec.forProvider does not", field)
	}
}

// findDropped returns a field that is lost when the object is decoded as the type of the kind.
func (s *scenario) findDropped(value map[string]any, path ...string) string {
	if len(value) == 0 {
		return ""
	}
	o := s.object.DeepCopy()
	was, _, _ := unstructured.NestedMap(o.Object, path...)
	if err := unstructured.SetNestedMap(o.Object, merge(was, value), path...); err != nil {
		return err.Error()
	}
	decoded, err := s.roundTrip(o.Object)
	if err != nil {
		return err.Error()
	}
	got, _, _ := unstructured.NestedMap(decoded, path...)
	return findMissing(value, got)
}

// findMissing returns the path of a field that has a value in want and is not in got.
func findMissing(want, got map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value := want[key]
		wantMap, isMap := value.(map[string]any)
		found, exists := got[key]
		gotMap, _ := found.(map[string]any)
		switch {
		case isMap && len(wantMap) > 0:
			if field := findMissing(wantMap, gotMap); field != "" {
				return key + "." + field
			}
		case !exists && !isEmpty(value):
			return key
		}
	}
	return ""
}

func isEmpty(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// invalidJSON returns the type of a value that an unstructured object cannot contain; empty if
// there is none.
func invalidJSON(value any) string {
	switch v := value.(type) {
	case nil, bool, string, int64, float64:
		return ""
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if invalid := invalidJSON(v[key]); invalid != "" {
				return invalid
			}
		}
		return ""
	case []any:
		for _, item := range v {
			if invalid := invalidJSON(item); invalid != "" {
				return invalid
			}
		}
		return ""
	}
	return fmt.Sprintf("%T", value)
}
