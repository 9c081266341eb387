package integration

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
)

type check = func(*unstructured.Unstructured) error

func exists(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	return nil
}

// all checks that every check holds.
func all(checks ...check) check {
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

// field checks a field's value; a nil value means that it isn't there.
func field(want any, path ...string) check {
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

// conditionIs checks a condition's status, its reason, and what its message
// contains.
func conditionIs(kind, status, reason string, contains ...string) check {
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
