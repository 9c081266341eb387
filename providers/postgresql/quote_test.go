package postgresql

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestNamesAndTextsAreQuoted(t *testing.T) {
	cases := map[string]struct{ got, want string }{
		"a name":                               {ident("app"), `"app"`},
		"a name with a quote in it":            {ident(`a"; DROP ROLE x; --`), `"a""; DROP ROLE x; --"`},
		"a name in another":                    {ident("app", "t.1"), `"app"."t.1"`},
		"a text":                               {literal("it"), `'it'`},
		"a text with a quote in it":            {literal(`it's \' o'`), `'it''s \'' o'''`},
		"a parameter of an extension":          {parameter("MyApp.level"), `"myapp"."level"`},
		"a value":                              {setting("statement_timeout", "5s'"), `'5s'''`},
		"a list of names":                      {setting("search_path", `"$user", app,x'y`), `'$user', 'app', 'x''y'`},
		"a list of names in quotes":            {setting("search_path", `"a,b" , "c ""d""",e,"f g" x`), `'a,b', 'c "d"', 'e', '"f g" x'`},
		"a list of none":                       {setting("search_path", " "), `''`},
		"no byte that ends a text comes along": {literal("a\x00b"), `'ab'`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("it is %s, and was to be %s", tc.got, tc.want)
			}
		})
	}
}

func TestWhatCannotBeANameIsRefused(t *testing.T) {
	cases := map[string]struct {
		name string
		ok   bool
	}{
		"63 bytes": {strings.Repeat("a", 63), true},
		"64 bytes, cut off by the server otherwise": {strings.Repeat("a", 64), false},
		"63 letters of more bytes":                  {strings.Repeat("ä", 63), false},
		"nothing":                                   {"", false},
		"a zero byte":                               {"a\x00", false},
		"odd, and allowed":                          {`Ä b"c;`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := checkName("the name", tc.name); (err == nil) != tc.ok {
				t.Errorf("it is said: %v", err)
			}
		})
	}
}

func TestAMarkIsReadAsItWasWritten(t *testing.T) {
	mark := external.Mark{ID: "ABC123", Owner: "Role.postgresql.espalier.dev/team-a/app@1b2c"}
	if got := markIn(commentOf(mark)); got == nil || *got != mark {
		t.Errorf("it is read as %+v", got)
	}
	for _, comment := range []string{"", "somebody's own words", "managed by espalier: ", "managed by espalier: x", "managed by espalier: x ()", "managed by espalier: x (a) (b)"} {
		if got := markIn(comment); got != nil {
			t.Errorf("%q is read as %+v", comment, got)
		}
	}
}
