package regexps

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRegexpsThatNeedLongAreRefused(t *testing.T) {
	cases := map[string]struct {
		pattern, text string
		refused       bool
	}{
		"a certificate bundle and a long pattern": {
			pattern: `-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----`,
			text:    strings.Repeat("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", 1600),
		},
		"a name":                                   {pattern: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, text: "shop"},
		"a long text and a small pattern":          {pattern: `^[^\n]+$`, text: strings.Repeat("x", 1<<20)},
		"many alternatives":                        {pattern: strings.Repeat("name|", 1000), text: "name"},
		"letters of other languages, in any case":  {pattern: `(?i)^[a-zà-öø-ÿ]+$`, text: "Ärger"},
		"a long text and a pattern of many states": {pattern: `(x+x+)+y`, text: strings.Repeat("x", 1<<20), refused: true},
		"copies of copies":                         {pattern: `((x{1,10}){1,10}){1,10}y`, text: strings.Repeat("x", 1<<14), refused: true},
		"copies that are too many to compile":      {pattern: strings.Repeat("x{1000}", 1000), refused: true},
		"a pattern that is too long":               {pattern: strings.Repeat("x", maxPattern+1), refused: true},
		"classes of letters":                       {pattern: "[" + strings.Repeat(`\p{L}`, maxUnicodeClasses+1) + "]", refused: true},
		"ranges that ignore case":                  {pattern: "(?s)(?i:[" + strings.Repeat(`B-\x{1e920}`, maxFoldedRanges+1) + "])", refused: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			re, err := Compile(c.pattern)
			if err == nil {
				_, err = re.Matches(c.text)
			}
			if (err != nil) != c.refused {
				t.Error(err)
			}
			if re == nil {
				return
			}
			if _, err := re.Find(c.text); (err != nil) != c.refused {
				t.Error(err)
			}
			if _, err := re.FindSubmatch(c.text); (err != nil) != c.refused {
				t.Error(err)
			}
			if _, err := re.FindAll(c.text, -1); (err != nil) != c.refused {
				t.Error(err)
			}
		})
	}
}

func TestAFindAllThatReadsTheTextForEachMatchIsRefused(t *testing.T) {
	text := strings.Repeat("a", 10_000)
	re, err := Compile(`a|.*b`)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := re.FindAll(text, -1); err != nil || len(found) != len(text) {
		t.Error(len(found), err)
	}
	if re, err = Compile(`.*b|a`); err != nil {
		t.Fatal(err)
	}
	if _, err := re.FindAll(text, -1); err == nil {
		t.Error("each match reads all the text")
	}
	if _, err := re.ReplaceAll(text, ""); err == nil {
		t.Error("each replacement reads all the text")
	}
	if found, err := re.FindAll(text, 3); err != nil || len(found) != 3 {
		t.Error(found, err)
	}
}

func TestAllThatIsFoundIsWhatGoFinds(t *testing.T) {
	patterns := []string{
		``, `a`, `a*`, `a|b*`, `^`, `$`, `(?m)^`, `(?m)$`, `\b`, `\B`, `\ba`, `(a)(b)?`, `(?i)A+?`, `.`, `[^a]`, `a??`, `\Qa`, `(?U)a+`, `^a`, `\z`, `é`, `(?s).`, `x*?b`, `(a|ab)(c|bcd)`,
	}
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.OneOf(rapid.SampledFrom(patterns), rapid.StringMatching(`[ab.^$|*?+()é]{0,6}`)).Draw(t, "pattern")
		want, err := regexp.Compile(pattern)
		if err != nil {
			t.Skip(err)
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "A", "é", " ", "\n", "\xff"}), 0, 12).Draw(t, "text"), "")
		limit := rapid.IntRange(-1, 4).Draw(t, "limit")
		re, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got, err := re.FindAll(text, limit)
		if err != nil {
			t.Skip(err)
		}
		if diff := cmp.Diff(want.FindAllString(text, limit), got); diff != "" {
			t.Errorf("%q in %q: %s", pattern, text, diff)
		}
	})
}

func TestTheSizeOfARegexpIsThatOfItsProgram(t *testing.T) {
	for _, pattern := range []string{`a`, `abc`, `a.c`, `(a)`, `a*`, `a+`, `a?`, `a|bc|d`, `[a-z]+`, `(?:ab){3}`, `(?:ab){3,}`, `(?:ab){0,}`, `(?:ab){2,5}`, `(x+x+)+y`, `^(a|b){1,10}$`, `((x{2}){3}){4}`} {
		parsed, err := parse(pattern)
		if err != nil {
			t.Fatal(err)
		}
		estimated := instructions(parsed) + 2
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if size := len(program.Inst); estimated < size || estimated > size+2 {
			t.Errorf("%s has %d instructions, not %d", pattern, size, estimated)
		}
	}
}
