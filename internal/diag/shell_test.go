package diag_test

import (
	"os/exec"
	"testing"

	"github.com/espalier-dev/espalier/internal/diag"
)

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"main":                  "main",
		"vpc.kro.run/main":      "vpc.kro.run/main",
		"spec.replicas":         "spec.replicas",
		"":                      "''",
		"system:masters":        "system:masters",
		"a b":                   "'a b'",
		"spec.list[0]":          "'spec.list[0]'",
		"a;id":                  "'a;id'",
		"$(id)":                 "'$(id)'",
		"`id`":                  "'`id`'",
		"a|b&c>d<e(f)#g!h\\i~j": "'a|b&c>d<e(f)#g!h\\i~j'",
		"it's":                  `'it'\''s'`,
		"a\n\x1b[201~'\\":       `$'a\x0a\x1b[201~\'\\'`,
	} {
		got := diag.ShellWord(text)
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+got).Output(); err != nil || string(out) != text {
			t.Errorf("a shell reads %s as %q: %v", got, out, err)
		}
	}
}
