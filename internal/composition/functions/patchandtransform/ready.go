package patchandtransform

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
)

// ready reports whether an observed resource passes all checks. Without checks, its Ready condition must be True. A
// missing field fails a check; a field of another type than the check's is an error.
func ready(o map[string]any, checks []readinessCheck) (bool, error) {
	if len(checks) == 0 {
		return conditionStatus(o, "Ready") == "True", nil
	}
	for i := range checks {
		ok, err := checks[i].passes(o)
		if err != nil {
			return false, fmt.Errorf("cannot run readiness check at index %d: %w", i, err)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

func (r *readinessCheck) passes(o map[string]any) (bool, error) {
	switch r.Type {
	case "None":
		return true, nil
	case "MatchCondition":
		return conditionStatus(o, r.MatchCondition.Type) == r.MatchCondition.Status, nil
	}
	value, err := fieldpath.Get(o, *r.FieldPath)
	switch {
	case fieldpath.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	switch r.Type {
	case "MatchString":
		return matchValue(value, *r.MatchString, *r.FieldPath, "a string")
	case "MatchInteger":
		return matchValue(value, *r.MatchInteger, *r.FieldPath, "a (int64) number")
	case "MatchTrue":
		return matchValue(value, true, *r.FieldPath, "a bool")
	case "MatchFalse":
		return matchValue(value, false, *r.FieldPath, "a bool")
	default: // NonEmpty: the field exists, even if it is null
		return true, nil
	}
}

func matchValue[T comparable](value any, want T, path, what string) (bool, error) {
	v, ok := value.(T)
	if !ok {
		return false, fmt.Errorf("%s: not %s", path, what)
	}
	return v == want, nil
}

// conditionStatus is a condition's status; Unknown if the object has a status without the
// condition, and "" if it has no valid status.
func conditionStatus(o map[string]any, condition string) string {
	in, ok := o["status"].(map[string]any)
	if !ok {
		return ""
	}
	conditions, ok := in["conditions"].([]any)
	if !ok {
		if in["conditions"] != nil {
			return ""
		}
		return "Unknown"
	}
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["type"] == condition {
			s, _ := c["status"].(string)
			return s
		}
	}
	return "Unknown"
}
