package diag_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-dev/espalier/internal/diag"
)

func TestPrintable(t *testing.T) {
	cases := map[string]struct{ reason, text, want string }{
		"text":                 {"nothing is wrong with it", `größer als „5“ – 数据库\n`, `größer als „5“ – 数据库\n`},
		"a colour":             {"it would colour the terminal", "\x1b[31mdenied\x1b[0m", `\x1b[31mdenied\x1b[0m`},
		"a title":              {"it would rename the window", "\x1b]0;root\adenied", `\x1b]0;root\x07denied`},
		"a C1 control":         {"some terminals take it for an escape", "\u009b31m", `\u009b31m`},
		"a carriage return":    {"it would overwrite what is before", "denied\rallowed", "denied allowed"},
		"lines":                {"they would look like other messages", "denied\nREADY  True", "denied READY  True"},
		"a line separator":     {"some viewers break lines at it", "a\u2028b", "a b"},
		"right to left":        {"it would reverse what follows", "a\u202eb", `a\u202eb`},
		"nothing to see":       {"two names would look the same", "a\u200bb\ufeff", `a\u200bb\ufeff`},
		"beyond the BMP":       {"tags are invisible", "\U000e0041", `\U000e0041`},
		"no UTF-8":             {"the API server refuses it", "a\xff\xc3", `a\xff\xc3`},
		"a replaced one":       {"it is a character", "a\ufffdb", "a\ufffdb"},
		"an ideographic space": {"it is a character of texts", "a\u3000b", "a\u3000b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := diag.Printable(tc.text); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
	if got := diag.TruncateLines("a\n\tb\x1b\nc", 100); got != "a\n b\\x1b\nc" {
		t.Errorf("lines: %q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, text := range []string{"", "a", "\x1b[2J", "a\r\nb", "\xff\xfe", "\u202e", strings.Repeat("é", 50), strings.Repeat("\x00", 50)} {
		f.Add(text, 20)
	}
	f.Fuzz(func(t *testing.T, text string, bytes int) {
		bytes = max(len("…"), bytes%100)
		for name, got := range map[string]string{
			"Printable": diag.Printable(text), "Truncate": diag.Truncate(text, bytes),
			"TruncateLines": diag.TruncateLines(text, bytes), "TruncateMiddle": diag.TruncateMiddle(text, bytes),
		} {
			if !utf8.ValidString(got) {
				t.Fatalf("%s of %q is no UTF-8: %q", name, text, got)
			}
			if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) && (name != "TruncateLines" || r != '\n') }); i >= 0 {
				t.Fatalf("%s of %q has a control character: %q", name, text, got)
			}
			if name != "Printable" && len(got) > bytes {
				t.Fatalf("%s of %q to %d bytes has %d", name, text, bytes, len(got))
			}
			if again := diag.Printable(got); name != "TruncateLines" && again != got {
				t.Fatalf("%s of %q changes when it is quoted again: %q and %q", name, text, got, again)
			}
		}
	})
}
