package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKindsAndNamesAreCompleted(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record.yaml")
	const objects = `
{apiVersion: example.org/v1, kind: Widget, metadata: {name: front, namespace: default}}
---
{apiVersion: example.org/v1, kind: Widget, metadata: {name: back, namespace: default}}
---
{apiVersion: example.org/v1, kind: Widget, metadata: {name: far, namespace: elsewhere}}
---
{apiVersion: example.org/v1, kind: Wide, metadata: {name: all, namespace: default}}
`
	if err := os.WriteFile(record, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{"why wid", "wides widgets"},
		{"tree widgets ", "back front"},
		{"tree widgets f", "front"},
		{"blockers widgets -n elsewhere ", "far"},
		{"why widgets/f", "widgets/front"},
		{"why nothing ", ""},
		{"why widgets front ", ""},
		{"why widgets/front ", ""},
	} {
		args := strings.Split(tc.args, " ")
		last := len(args) - 1
		args = append([]string{"__complete"}, append(append(args[:last:last], "--from", record), args[last])...)
		code, out, errs := call(t.Context(), args...)
		candidates, directive, _ := strings.Cut(out, ":")
		if got := strings.Join(strings.Fields(candidates), " "); code != exitDone || got != tc.want || !strings.HasPrefix(directive, "4") {
			t.Errorf("%q: got %q (%d, %s)", tc.args, got, code, errs)
		}
	}
	code, out, _ := call(t.Context(), "__complete", "why", "--from", record+".none", "wid")
	if code != exitDone || !strings.HasPrefix(out, ":4") {
		t.Errorf("what cannot be read completes %q", out)
	}
}

func TestKubectlFindsThePlugin(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]bool{"/usr/bin/kubectl-espalier": true, "kubectl-espalier.exe": true, "/opt/kubectl-tools/espalier": false, "espalier": false} {
		if got := isPlugin(program); got != want {
			t.Errorf("%s: %t", program, got)
		}
	}
}
