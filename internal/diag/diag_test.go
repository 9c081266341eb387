package diag_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestDiagnosticString(t *testing.T) {
	cases := map[string]struct {
		diagnostic diag.Diagnostic
		want       string
	}{
		"A field as a whole": {
			diag.Diagnostic{Path: "spec.schema.kind", Problem: "is required"},
			"spec.schema.kind: is required",
		},
		"The document as a whole": {
			diag.Diagnostic{Problem: "is empty"},
			"is empty",
		},
		"A place in an expression, counted from 1": {
			diag.Diagnostic{Path: "spec.a", Expr: "vpc.sttus", Offset: 4, Problem: "no such field", Expected: "a string", Nearest: "status"},
			`spec.a: in "vpc.sttus" at 5: no such field; expected a string; did you mean "status"?`,
		},
		"A place in several lines": {
			diag.Diagnostic{Expr: "a +\n  b.c\n", Offset: 6, Problem: "no"},
			`in "a +\n  b.c\n" at line 2:3: no`,
		},
		"The first line of several": {
			diag.Diagnostic{Expr: "a +\nb", Offset: 0, Problem: "no"},
			`in "a +\nb" at line 1:1: no`,
		},
		"A place beyond the expression is its end": {
			diag.Diagnostic{Expr: "abc", Offset: 99, Problem: "no"},
			`in "abc" at 4: no`,
		},
		"A place before the expression is its beginning": {
			diag.Diagnostic{Expr: "abc", Offset: -1, Problem: "no"},
			`in "abc" at 1: no`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.diagnostic.String(); got != tc.want {
				t.Errorf("want %s\n got %s", tc.want, got)
			}
		})
	}
}

func TestLongExpressionsAreAbbreviated(t *testing.T) {
	got := diag.Diagnostic{Expr: strings.Repeat("é", 500), Problem: "no"}.String()
	if len(got) > 200 || !utf8.ValidString(got) || !strings.Contains(got, "…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestSorted(t *testing.T) {
	at := func(path string, offset int, problem string) diag.Diagnostic {
		return diag.Diagnostic{Path: object.Path(path), Offset: offset, Problem: problem}
	}
	want := diag.List{
		at("", 0, "all"), at("spec", 0, "a"), at("spec.resources[2].x", 0, "a"), at("spec.resources[2].x", 0, "b"),
		at("spec.resources[2].x", 7, "a"), at("spec.resources[10].x", 0, "a"), at("spec.schema", 0, "a"),
	}
	for range 20 {
		mixed := append(diag.List{want[2], want[0]}, want...)
		rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if diff := cmp.Diff(want, mixed.Sorted()); diff != "" {
			t.Fatalf("by path with numbers as numbers, offset and problem, once each (-want +got):\n%s", diff)
		}
	}
}

func TestErr(t *testing.T) {
	var l diag.List
	if l.Err() != nil {
		t.Error("nothing wrong is an error")
	}
	l.Addf("b", "is %d", 1)
	l.Add(diag.Diagnostic{Path: "a", Problem: "is wrong"})
	err := l.Err()
	if err == nil || err.Error() != "a: is wrong\nb: is 1" {
		t.Errorf("got %v", err)
	}
	var e *diag.Error
	if !errors.As(err, &e) || len(e.List) != 2 {
		t.Errorf("the list can't be had from the error %v", err)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"privateSubnet1ID", "privateSubnet2ID", "status", "state", "id"}
	for name, want := range map[string]string{
		"prvateSubnet1ID":   "privateSubnet1ID", // a letter missing
		"PRIVATESUBNET2ID":  "privateSubnet2ID", // only the case
		"sttaus":            "status",           // neighbours swapped
		"privateSubnet3ID":  "privateSubnet1ID", // a tie goes to the first
		"status":            "state",            // not the name itself
		"completelyUnknown": "",
		"ix":                "id",
		"":                  "",
	} {
		if got := diag.Nearest(name, known); got != want {
			t.Errorf("%s: want %q, got %q", name, want, got)
		}
	}
	long := strings.Repeat("a", 5<<20) // comparing two of them would take days
	if got := diag.Nearest(long, []string{long + "b", "a"}); got != "" {
		t.Errorf("a long name has a nearest one of %d bytes", len(got))
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.StringMatching(`[a-c]{0,6}`)).Draw(t, "known")
		name := rapid.StringMatching(`[a-c]{0,6}`).Draw(t, "name")
		got := diag.Nearest(name, names)
		perm := rapid.Permutation(names).Draw(t, "in another order")
		if again := diag.Nearest(name, perm); again != got {
			t.Fatalf("%q or %q, by the order of what is known", got, again)
		}
	})
}

func TestYAMLBooleansAreWhatReadersOfManifestsMakeOfThem(t *testing.T) {
	for _, word := range []string{"y", "Y", "yes", "On", "TRUE", "n", "No", "off", "False", "x", "yess", "yea", "1"} {
		key, is := diag.YAMLBoolean(word)
		if !is {
			key = word
		}
		got, err := yaml.YAMLToJSON([]byte(word + ": a\n"))
		if want := fmt.Sprintf(`{%q:"a"}`, key); err != nil || string(got) != want {
			t.Errorf("want %s, got %s, %v", want, got, err)
		}
	}
}
