package expr

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func TestAnEnvironmentIsExtendedWithoutBeingChanged(t *testing.T) {
	env := testEnv(t)
	items, problems := env.Compile(`vpc.status.subnets.filter(s, s.size > 0)`, "")
	if problems != nil {
		t.Fatal(problems)
	}
	extended, err := env.With(Declaration{Name: "each", Type: items.Type().Parameters()[0]})
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := env.Compile(`each.id`, ""); problems == nil {
		t.Error("the environment itself was changed")
	}
	_, problems = extended.Compile(`each.zonee`, "")
	if len(problems) != 1 || problems[0].Nearest != "zone" {
		t.Error(problems)
	}
	p, problems := extended.Compile(`each.id + schema.spec.name`, "")
	if problems != nil {
		t.Fatal(problems)
	}
	vars := worldVars(t)
	vars["each"] = map[string]any{"id": "s-"}
	if got, err := p.Eval(vars); err != nil || got != "s-shop" {
		t.Error(got, err)
	}
	hidden, err := env.With(Declaration{Name: "vpc"})
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := hidden.Compile(`vpc.anything`, ""); problems != nil {
		t.Error("the new declaration doesn't hide the old one:", problems)
	}
}

func TestEveryLimitNamesItself(t *testing.T) {
	env, err := NewEnv([]Declaration{{Name: "raw"}}, Limits{Length: 40, Depth: 3})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ expr, want string }{
		"length": {strings.Repeat("1", 41), "x: an expression of 41 bytes exceeds the limit Length of 40"},
		"depth":  {"[[[[1]]]]", `x: in "[[[[1]]]]" at 4: 4 nested brackets exceed the limit Depth of 3`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := env.Compile(c.expr, "x")
			if diff := cmp.Diff(c.want, problems.Err().Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, problems := env.Compile(`"((((((("`, "x"); problems != nil {
		t.Error("brackets in a string were counted:", problems)
	}
}

func TestAResultIsLimited(t *testing.T) {
	env := testEnv(t)
	source := "[1]"
	for range 40 {
		source = "cel.bind(a, " + source + ", [a, a])"
	}
	p, problems := env.Compile(source, "x")
	if problems != nil {
		t.Fatal(problems)
	}
	_, err := p.Eval(nil)
	var limit *LimitExceeded
	if !errors.As(err, &limit) || limit.Limit != "Size" {
		t.Errorf("want LimitExceeded, got %v", err)
	}
}

func TestCallsThatNothingInterruptsAreBounded(t *testing.T) {
	env, large := testEnv(t), "[1]"
	for range 40 {
		large = "cel.bind(a, " + large + ", [a, a])"
	}
	for _, source := range []string{"x == y", "x != y", "x in [y]", "[y].indexOf(x) == 0", "[x, y].distinct() == []", "x.flatten(50) == []", `"%s".format([x]) == ""`} {
		t.Run(source, func(t *testing.T) {
			p, problems := env.Compile("cel.bind(x, "+large+", cel.bind(y, "+large+", "+source+"))", "x")
			if problems != nil {
				t.Fatal(problems)
			}
			if v, err := p.Eval(nil); err == nil {
				t.Errorf("want an error, got %v, %v", v, err)
			}
		})
	}
}

func TestARecursiveSchemaEnds(t *testing.T) {
	node := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
		"name": *spec.StringProperty(),
	}}}
	children := spec.ArrayProperty(nil)
	children.Items = &spec.SchemaOrArray{Schema: node}
	node.Properties["children"] = *children
	env, err := NewEnv([]Declaration{{Name: "tree", Schema: node}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	template, problems := env.Template(map[string]any{
		"name": "${tree.children[0].children[0].name}", "children": "${tree.children}",
	}, node, "")
	if problems != nil {
		t.Fatal(problems)
	}
	if s := template.Schema(); s.Properties["children"].Type != "array" {
		t.Error(s)
	}
	if _, problems := env.Compile(`tree.children[0].children[0].nmae`, ""); problems[0].Nearest != "name" {
		t.Error(problems)
	}
}

func TestOnlyReadFieldsOfASchemaGetShapes(t *testing.T) {
	wide := &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{}}}
	inner := schemaOf(t, deploymentSchema)
	for i := range 2000 {
		wide.Properties[strings.Repeat("x", i%40)+string(rune('a'+i%26))] = *inner
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	env, err := NewEnv([]Declaration{{Name: "a", Schema: wide}, {Name: "b", Schema: wide}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := env.Compile(`a.xa.spec == b.xb.spec`, ""); problems != nil {
		t.Log(problems)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc) - int64(before.TotalAlloc); grown > 4<<20 {
		t.Errorf("%d bytes for two names", grown)
	}
	if n := len(env.shapes.byName); n > 4 {
		t.Errorf("%d object types", n)
	}
}
