package suite

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// Check says what an object lacks to be as it should; it gets nil where there is none.
type Check = func(*unstructured.Unstructured) error

// Exists checks that there is an object.
func Exists(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	return nil
}

// All checks that every check holds.
func All(checks ...Check) Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		for _, c := range checks {
			if err := c(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// Field checks a field's value; a nil value means that it isn't there.
func Field(want any, path ...string) Check {
	return func(o *unstructured.Unstructured) error {
		got, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
		if !found {
			got = nil
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%s is %v, not %v", strings.Join(path, "."), got, want)
		}
		return nil
	}
}

// ConditionIs checks a condition's status, its reason, and what its message
// contains.
func ConditionIs(kind, status, reason string, contains ...string) Check {
	return func(o *unstructured.Unstructured) error {
		if got := testkit.Condition(o, kind); got != status {
			return fmt.Errorf("condition %s is %q, not %q", kind, got, status)
		}
		if got := testkit.ReasonOf(o, kind); reason != "" && got != reason {
			return fmt.Errorf("condition %s has reason %q, not %q", kind, got, reason)
		}
		message := testkit.Message(o, kind)
		for _, text := range contains {
			if !strings.Contains(message, text) {
				return fmt.Errorf("condition %s does not say %q: %s", kind, text, message)
			}
		}
		return nil
	}
}

// ProblemOf checks that the status tells a problem of a node in the status.
func ProblemOf(node string, contains ...string) Check {
	return func(o *unstructured.Unstructured) error {
		problems, _, _ := unstructured.NestedSlice(o.Object, "status", "problems")
		for _, p := range problems {
			problem, _ := p.(map[string]any)
			message, _ := problem["message"].(string)
			all := problem["node"] == node
			for _, text := range contains {
				all = all && strings.Contains(message, text)
			}
			if all {
				return nil
			}
		}
		return fmt.Errorf("no problem of %s contains %q", node, contains)
	}
}
