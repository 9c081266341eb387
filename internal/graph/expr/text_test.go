package expr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitting(t *testing.T) {
	cases := map[string]struct {
		text string
		want string // the expressions in brackets
	}{
		"text alone":                                     {`plain`, `plain`},
		"nothing":                                        {``, ``},
		"an expression alone":                            {`${a.b}`, `[a.b]`},
		"text around expressions":                        {`x-${a}-${b}.y`, `x-[a]-[b].y`},
		"expressions side by side":                       {`${a}${b}`, `[a][b]`},
		"braces of a map":                                {`${c ? {"a": {"b": 1}} : {}}`, `[c ? {"a": {"b": 1}} : {}]`},
		"a brace in double quotes":                       {`${"}"}`, `["}"]`},
		"a brace in single quotes":                       {`${'}'}`, `['}']`},
		"a brace in triple quotes":                       {`${"""a"}"b"""}`, `["""a"}"b"""]`},
		"an escaped quote":                               {`${"\"}"}`, `["\"}"]`},
		"a backslash at the end of a raw string":         {`${r"\"}`, `[r"\"]`},
		"a backslash in raw bytes":                       {`${br'\' + b'}'}`, `[br'\' + b'}']`},
		"a name that ends in r before a quote":           {`${bar"\"}"}`, `[bar"\"}"]`},
		"an escape that is how the dialect writes a ${":  {`echo ${"${USER}"}`, `echo ["${USER}"]`},
		"an expression in single quotes":                 {`${x == '${y}'}`, `[x == '${y}']`},
		"newlines":                                       {"${a.map(\n  x,\n  x)}", "[a.map(\n  x,\n  x)]"},
		"a quote in a comment":                           {"${a // it's\n + b}", "[a // it's\n + b]"},
		"a dollar and a brace apart":                     {`$ {a} $`, `$ {a} $`},
		"a shell variable without braces":                {`$HOME $(pwd)`, `$HOME $(pwd)`},
		"an empty expression is for the compiler to say": {`${}`, `[]`},
		"an expression inside another one":               {`${a(${b})}`, `an expression inside another one; put a literal "${" in quotes`},
		"an expression that doesn't end":                 {`${a`, `"${" without its "}"; to write it as text, use ${"${"}`},
		"a quote that doesn't end":                       {`${a["b}`, `"${" without its "}"; to write it as text, use ${"${"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			segments, err := Split(c.text)
			got := ""
			if err != nil {
				got = err.Problem
			}
			for _, s := range segments {
				if s.Expr {
					s.Text = "[" + s.Text + "]"
				}
				got += s.Text
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`x-${a}-${b}`, `${"}"}`, `${r'\'}`, `${"""`, `${a ${`, `${{}}`, "${//\n}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		segments, err := Split(text)
		if err != nil {
			return
		}
		var whole strings.Builder
		for _, s := range segments {
			if s.Expr {
				whole.WriteString("${" + s.Text + "}")
			} else {
				whole.WriteString(s.Text)
			}
			if text[s.Offset:s.Offset+len(s.Text)] != s.Text {
				t.Errorf("%q isn't at %d", s.Text, s.Offset)
			}
		}
		if whole.String() != text {
			t.Errorf("%q was put together as %q", text, whole.String())
		}
	})
}
