package diag_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/diag"
)

func TestWrapAdvice(t *testing.T) {
	const text = "to let it go: kubectl annotate pool blue -n prod example.org/release=data"
	cases := map[string]struct {
		text  string
		width int
		want  string
	}{
		"Without a terminal it is one line":         {text, 0, "- " + text + "\n"},
		"What fits is one line":                     {text, 80, "- " + text + "\n"},
		"A command that does not fit has a line":    {text, 40, "- to let it go:\n  kubectl annotate pool blue -n prod example.org/release=data\n"},
		"Words before a command are wrapped":        {"remove what nobody needs any more: espalier delete pool blue", 24, "- remove what nobody\n  needs any more:\n  espalier delete pool blue\n"},
		"Text without a command is wrapped":         {"the provider must delete: it is slow", 20, "- the provider must\n  delete: it is slow\n"},
		"A command at the beginning is not wrapped": {"kubectl describe pods -n prod; then restart what is not ready", 20, "- kubectl describe pods -n prod;\n  then restart what\n  is not ready\n"},
		"Nor is a command alone":                    {"kubectl describe pods -n prod", 20, "- kubectl describe pods -n prod\n"},
		"A command may have colons in its argument": {"see it: espalier aws types 'AWS::EC2::VPC: it'", 20, "- see it:\n  espalier aws types 'AWS::EC2::VPC: it'\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			diag.WrapAdvice(&b, "- ", tc.text, tc.width)
			if diff := cmp.Diff(tc.want, b.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWrapLines(t *testing.T) {
	cases := map[string]struct {
		text  string
		width int
		want  string
	}{
		"Lines that fit stay as they are":        {"a   b\n\n  c\n", 5, "a   b\n\n  c\n"},
		"Further lines are indented more":        {"one two three\n  four five six\n", 10, "one two\n  three\n  four\n    five\n    six\n"},
		"A word that is too long stays in whole": {"see https://example.org/a/b/c now", 12, "see\n  https://example.org/a/b/c\n  now"},
		"Without a terminal nothing is wrapped":  {"one two three\n", 0, "one two three\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, diag.WrapLines(tc.text, tc.width)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestWrappingKeepsWords checks that no word is lost, cut or reordered, and that only words that are too long make lines too long.
func TestWrappingKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`( {0,4}([a-zä]{1,12} ){0,9}\n){0,4}`).Draw(t, "text")
		width := rapid.IntRange(1, 30).Draw(t, "width")
		got := diag.WrapLines(text, width)
		if diff := cmp.Diff(strings.Fields(text), strings.Fields(got)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && len(strings.Fields(line)) > 1 {
				t.Errorf("%q is longer than %d", line, width)
			}
		}
	})
}
