package expr

import (
	"errors"
	"strings"
	"testing"
)

// TestARedactedFailureNamesTheFunction evaluates expressions over a Secret with the value hunter2.
func TestARedactedFailureNamesTheFunction(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	cases := map[string]string{
		`string(base64.decode(string(secret.data.password) + "!"))`:                                  `base64.decode: its argument is not base64; note that the data of a Secret is read decoded`,
		`int(string(secret.data.password)) + 1`:                                                      `int: its argument is not an integer`,
		`"x-" + json.unmarshal(string(secret.data.password)).a`:                                      `json.unmarshal: its argument is not JSON`,
		`schema.spec.replicas / (string(secret.data.password).size() - 7)`:                           `/: the divisor is zero, or the result is too large`,
		`["a", "b"][string(secret.data.password).size()]`:                                            `[]: there is no such item or key`,
		`string(secret.data.password).split("").transformMapEntry(i, v, {"x": v})`:                   `transformMapEntry: two entries have the same key`,
		`lists.setAtIndex([string(secret.data.password)], 3, "x")`:                                   `lists.setAtIndex: the index is outside the list`,
		`"%d".format([dyn(string(secret.data.password))])`:                                           `format: its arguments do not fit the format`,
		`quantity(string(secret.data.password)).isInteger()`:                                         `quantity: its argument is not a quantity`,
		`dyn(string(secret.data.password)) + dyn(1)`:                                                 `+: the result is too large, or the operands have different types`,
		`string(secret.data.password).substring(99)`:                                                 `substring: it has no result for these arguments`,
		`[string(secret.data.password)].exists(p, timestamp(p) > timestamp("2026-01-01T00:00:00Z"))`: `timestamp: its argument is not a time of RFC 3339`,
	}
	for source, want := range cases {
		t.Run(source, func(t *testing.T) {
			p, problems := env.Compile(source, "spec.x")
			if problems != nil {
				t.Fatal(problems)
			}
			_, err := p.Eval(vars)
			var failure *Failure
			if !errors.As(err, &failure) {
				t.Fatalf("got %v", err)
			}
			if failure.Kind() != want {
				t.Errorf("want %s, got %s", want, failure.Kind())
			}
			if text := failure.Redacted(); !strings.HasPrefix(text, "spec.x: ") || strings.Contains(text, "hunter2") {
				t.Error(text)
			}
		})
	}
}
