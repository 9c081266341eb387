package diag_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/diag"
)

func TestCut(t *testing.T) {
	cases := map[string]struct {
		text  string
		bytes int
		want  string
	}{
		"A text that fits stays":              {"subnet", 6, "subnet"},
		"A longer one ends with an ellipsis":  {"subnets", 6, "sub…"},
		"A character is kept or goes whole":   {"éééé", 6, "é…"},
		"What is no UTF-8 is escaped":         {"a\xffb", 6, `a\xffb`},
		"An escape counts with its length":    {"abcde\x1b", 6, "abc…"},
		"Line breaks become a space":          {"a\r\n\tb", 6, "a b"},
		"Nothing is shorter than an ellipsis": {"subnet", 0, "…"},
		"Nothing stays nothing":               {"", 0, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := diag.Truncate(tc.text, tc.bytes); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text, bytes := rapid.String().Draw(t, "text"), rapid.IntRange(3, 40).Draw(t, "bytes")
		got := diag.Truncate(text, bytes)
		if len(got) > bytes || !utf8.ValidString(got) || !strings.HasPrefix(diag.Printable(text), strings.TrimSuffix(got, "…")) {
			t.Fatalf("%q cut to %d bytes is %q", text, bytes, got)
		}
	})
}
