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
		"Neither --plan nor --back-to": {nil, "takeover takes --plan or --back-to"},
		"An unknown engine":            {[]string{"--back-to", "helm"}, "--back-to can be crossplane or kro"},
		"An unknown format":            {[]string{"--plan", "-o", "xml"}, "must be one of table, json, yaml"},
		"--wait is zero":               {[]string{"--plan", "--wait", "0s"}, "--wait must be longer than 0"},
		"An argument":                  {[]string{"--plan", "everything"}, "everything"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"takeover"}, tc.args...)...)
			if code == exitDone || out != "" || !strings.Contains(errs, tc.says) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}
