package cli

import (
	"strings"
	"testing"
)

func TestTakeoverArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"Neither a plan nor a way back": {nil, "takeover takes --plan or --back-to"},
		"An engine that nobody knows":   {[]string{"--back-to", "helm"}, "--back-to can be crossplane or kro"},
		"A format that nobody knows":    {[]string{"--plan", "-o", "yaml"}, "--output can be json"},
		"No time":                       {[]string{"--plan", "--wait", "0s"}, "--wait must be longer than 0"},
		"An argument":                   {[]string{"--plan", "everything"}, "everything"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"takeover"}, tc.args...)...)
			if code == exitDone || out != "" || !strings.Contains(errs, tc.says) {
				t.Errorf("it ended with %d: %s%s", code, out, errs)
			}
		})
	}
}
