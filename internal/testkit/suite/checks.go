package suite

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// Check returns why an object is not as expected, or nil. It gets nil for an absent object.
type Check = func(*unstructured.Unstructured) error

// IsPresent checks that the object exists.
func IsPresent(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	return nil
}

// All checks that the object exists and that every check passes.
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

// HasField checks the value of a field; nil means that the field is absent.
func HasField(want any, path ...string) Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
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

// HasCondition checks the status, the reason (unless it is empty) and parts of the message
// of a condition, of an object that exists.
func HasCondition(kind, status, reason string, contains ...string) Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("the object does not exist")
		}
		if got := testkit.ConditionStatus(o, kind); got != status {
			return fmt.Errorf("condition %s is %q, not %q", kind, got, status)
		}
		if got := testkit.ConditionReason(o, kind); reason != "" && got != reason {
			return fmt.Errorf("condition %s has reason %q, not %q", kind, got, reason)
		}
		message := testkit.ConditionMessage(o, kind)
		for _, text := range contains {
			if !strings.Contains(message, text) {
				return fmt.Errorf("condition %s does not say %q: %s", kind, text, message)
			}
		}
		return nil
	}
}

// HasProblem checks that status.problems has a problem of a node whose message contains all
// given texts.
func HasProblem(node string, contains ...string) Check {
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
