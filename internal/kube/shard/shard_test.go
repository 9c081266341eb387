package shard_test

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/shard"
)

func parse(t *testing.T, namespaces, labels string) shard.Selector {
	t.Helper()
	s, err := shard.Parse(strings.FieldsFunc(namespaces, func(r rune) bool { return r == ',' }), labels)
	if err != nil {
		t.Fatal(err)
	}
	again, err := shard.Decode(s.Encode())
	if err != nil || again.String() != s.String() {
		t.Errorf("%s is decoded as %s, %v", s, again, err)
	}
	return s
}

func TestNamespaces(t *testing.T) {
	for _, tt := range []struct {
		flag, namespace string
		want            bool
	}{
		{"", "", true},
		{"", "team-a", true},
		{"team-a,team-b", "team-b", true},
		{"team-a,team-b", "team-c", false},
		{"team-a", "", false},
		{"!team-a", "team-a", false},
		{"!team-a,!team-b", "team-c", true},
		{"!team-a", "", true},
	} {
		if got := parse(t, tt.flag, "").InNamespace(tt.namespace); got != tt.want {
			t.Errorf("%q selects namespace %q: %t, want %t", tt.flag, tt.namespace, got, tt.want)
		}
	}
}

func TestLabels(t *testing.T) {
	s := parse(t, "", "shard in (one,two)")
	if s.All() || !s.Labeled(map[string]string{"shard": "two"}) || s.Labeled(nil) {
		t.Errorf("%s does not select by its labels", s)
	}
	if all := parse(t, "", ""); !all.All() || !all.Labeled(nil) {
		t.Error("without a selector, not everything is selected")
	}
}

func TestOverlaps(t *testing.T) {
	for name, tt := range map[string]struct {
		a, b [2]string // namespaces and labels
		want bool
	}{
		"both select all":                    {want: true},
		"one selects all":                    {a: [2]string{"team-a", "x=1"}, want: true},
		"different namespaces":               {a: [2]string{"team-a", ""}, b: [2]string{"team-b", ""}},
		"a common namespace":                 {a: [2]string{"team-a,team-b", ""}, b: [2]string{"team-b", ""}, want: true},
		"a namespace that the other leaves":  {a: [2]string{"team-a", ""}, b: [2]string{"!team-a", ""}},
		"a namespace that the other has not": {a: [2]string{"team-a", ""}, b: [2]string{"!team-b", ""}, want: true},
		"cluster-scoped objects":             {a: [2]string{"!team-a", ""}, b: [2]string{"!team-b", ""}, want: true},
		"different values":                   {a: [2]string{"", "x=1"}, b: [2]string{"", "x in (2,3)"}},
		"a common value":                     {a: [2]string{"", "x=1"}, b: [2]string{"", "x in (1,2)"}, want: true},
		"a value and its exclusion":          {a: [2]string{"", "x=1"}, b: [2]string{"", "x notin (1,2)"}},
		"a value and another's exclusion":    {a: [2]string{"", "x=1"}, b: [2]string{"", "x!=2"}, want: true},
		"with and without the label":         {a: [2]string{"", "x"}, b: [2]string{"", "!x"}},
		"a value, and without the label":     {a: [2]string{"", "x=1"}, b: [2]string{"", "!x"}},
		"an exclusion, without the label":    {a: [2]string{"", "x!=1"}, b: [2]string{"", "!x"}, want: true},
		"different labels":                   {a: [2]string{"", "x=1"}, b: [2]string{"", "y=1"}, want: true},
		"one of several requirements":        {a: [2]string{"", "x=1,y=1"}, b: [2]string{"", "y=2,z=1"}},
		"different namespaces, same labels":  {a: [2]string{"team-a", "x=1"}, b: [2]string{"!team-a", "x=1"}},
	} {
		a, b := parse(t, tt.a[0], tt.a[1]), parse(t, tt.b[0], tt.b[1])
		if a.Overlaps(b) != tt.want || b.Overlaps(a) != tt.want {
			t.Errorf("%s: %q and %q overlap: %t and %t, want %t", name, a, b, a.Overlaps(b), b.Overlaps(a), tt.want)
		}
	}
}

func TestProblemsNameTheFlag(t *testing.T) {
	for _, tt := range []struct {
		namespaces, labels, want string
	}{
		{"Team", "", `--watch-namespaces: "Team" is not a namespace`},
		{"!", "", `--watch-namespaces: "" is not a namespace`},
		{"a,!b", "", "--watch-namespaces: list either"},
		{"", "x in", "--watch-label-selector: "},
	} {
		if _, err := shard.Parse(strings.Split(tt.namespaces, ","), tt.labels); tt.namespaces != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%q, %q: %v; want %s", tt.namespaces, tt.labels, err, tt.want)
		}
	}
	if _, err := shard.Parse(nil, "x in"); err == nil || !strings.HasPrefix(err.Error(), "--watch-label-selector: ") {
		t.Errorf("a malformed selector: %v", err)
	}
	if got, want := parse(t, "b,a", "x=1").String(), "--watch-namespaces=a,b --watch-label-selector=x=1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
