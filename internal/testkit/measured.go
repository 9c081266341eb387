package testkit

import "testing"

// attempts is how often something measured may be too much.
const attempts = 3

// Measured runs a subtest that measures time or requests, and returns what was too much of
// them. Where that is something it is run again: a busy machine may be to blame once or
// twice, by a pause between two events that are otherwise one. What is too much each time
// fails the test.
func Measured(t *testing.T, name string, run func(t *testing.T) (excess string)) {
	t.Helper()
	for attempt := 1; attempt <= attempts; attempt++ {
		excess := ""
		passed := t.Run(name, func(t *testing.T) {
			if excess = run(t); excess != "" && attempt == attempts {
				t.Error(excess)
			}
		})
		if !passed || excess == "" {
			return
		}
		t.Logf("%s: %s; measured again", name, excess)
	}
}
