package postgresql

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestNamesAndTextsAreQuoted(t *testing.T) {
	cases := map[string]struct{ got, want string }{
		"a name":                      {ident("app"), `"app"`},
		"a name with a quote":         {ident(`a"; DROP ROLE x; --`), `"a""; DROP ROLE x; --"`},
		"a qualified name":            {ident("app", "t.1"), `"app"."t.1"`},
		"a text":                      {literal("it"), `'it'`},
		"a text with a quote":         {literal(`it's \' o'`), `'it''s \'' o'''`},
		"a parameter of an extension": {parameter("MyApp.level"), `"myapp"."level"`},
		"a value":                     {setting("statement_timeout", "5s'"), `'5s'''`},
		"a list of names":             {setting("search_path", `"$user", app,x'y`), `'$user', 'app', 'x''y'`},
		"a list of names in quotes":   {setting("search_path", `"a,b" , "c ""d""",e,"f g" x`), `'a,b', 'c "d"', 'e', '"f g" x'`},
		"an empty list":               {setting("search_path", " "), `''`},
		"a zero byte is removed":      {literal("a\x00b"), `'ab'`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %s, want %s", tc.got, tc.want)
			}
		})
	}
}

func TestInvalidNamesAreRejected(t *testing.T) {
	cases := map[string]struct {
		name string
		ok   bool
	}{
		"63 bytes": {strings.Repeat("a", 63), true},
		"64 bytes, which the server would truncate": {strings.Repeat("a", 64), false},
		"63 letters of two bytes":                   {strings.Repeat("ä", 63), false},
		"an empty name":                             {"", false},
		"a zero byte":                               {"a\x00", false},
		"quotes, spaces and umlauts":                {`Ä b"c;`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := checkName("the name", tc.name); (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAMarkIsParsedFromItsComment(t *testing.T) {
	mark := external.Mark{ID: "ABC123", Owner: "Role.postgresql.espalier.dev/team-a/app@1b2c"}
	if got := parseMark(formatMark(mark)); got == nil || *got != mark {
		t.Errorf("got %+v", got)
	}
	for _, comment := range []string{"", "another comment", "managed by espalier: ", "managed by espalier: x", "managed by espalier: x ()", "managed by espalier: x (a) (b)"} {
		if got := parseMark(comment); got != nil {
			t.Errorf("%q is parsed as %+v", comment, got)
		}
	}
}
