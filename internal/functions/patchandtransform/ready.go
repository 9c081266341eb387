package patchandtransform

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
)

// ready says whether an observed resource passes all checks. If there are none, its Ready
// condition has to be true. A field that is not there is not ready; one of another type
// than the check is for is an error.
func ready(o map[string]any, checks []readinessCheck) (bool, error) {
	if len(checks) == 0 {
		return status(o, "Ready") == "True", nil
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
		return status(o, r.MatchCondition.Type) == r.MatchCondition.Status, nil
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
		return equal(value, *r.MatchString, *r.FieldPath, "a string")
	case "MatchInteger":
		return equal(value, *r.MatchInteger, *r.FieldPath, "a (int64) number")
	case "MatchTrue":
		return equal(value, true, *r.FieldPath, "a bool")
	case "MatchFalse":
		return equal(value, false, *r.FieldPath, "a bool")
	default: // NonEmpty: a field that is there counts, even if it is null
		return true, nil
	}
}

func equal[T comparable](value any, want T, path, what string) (bool, error) {
	v, ok := value.(T)
	if !ok {
		return false, fmt.Errorf("%s: not %s", path, what)
	}
	return v == want, nil
}

// status is a condition's status: Unknown, if the object has a status but not the
// condition, and nothing, if it has none that could be read.
func status(o map[string]any, condition string) string {
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
			said, _ := c["status"].(string)
			return said
		}
	}
	return "Unknown"
}
