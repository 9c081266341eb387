package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// event waits for an event about an object.
func (s suite) event(t *testing.T, about, reason string, contains ...string) {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}
	err := testkit.AwaitAny(t.Context(), s.Of(t, kind, s.ns), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		var seen []string
		for _, o := range objects {
			name, _, _ := unstructured.NestedString(o.Object, "regarding", "name")
			note, _, _ := unstructured.NestedString(o.Object, "note")
			why, _, _ := unstructured.NestedString(o.Object, "reason")
			seen = append(seen, name+" "+why+": "+note)
			matches := name == about && why == reason
			for _, text := range contains {
				matches = matches && strings.Contains(note, text)
			}
			if matches {
				return nil
			}
		}
		return fmt.Errorf("no event %s about %s saying %q; there are:\n%s", reason, about, contains, strings.Join(seen, "\n"))
	})
	if err != nil {
		t.Fatal(err)
	}
}
