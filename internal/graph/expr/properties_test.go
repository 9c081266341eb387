package expr

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func scalars() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Map(rapid.StringMatching(`[a-z ${}'"]{0,6}`), func(s string) any {
			if _, err := Split(s); err != nil {
				return "plain"
			}
			return s
		}).Filter(func(v any) bool {
			segments, _ := Split(v.(string))
			for _, s := range segments {
				if s.Expr {
					return false
				}
			}
			return true
		}),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Float64Range(-1e6, 1e6), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
}

func documents(leaf *rapid.Generator[any], depth int) *rapid.Generator[any] {
	if depth == 0 {
		return leaf
	}
	inner := documents(leaf, depth-1)
	return rapid.OneOf(
		leaf,
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z]{1,4}`), inner, 0, 4), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(l []any) any { return l }),
	)
}

func TestATemplateWithoutExpressionsRendersItself(t *testing.T) {
	env := testEnv(t)
	rapid.Check(t, func(t *rapid.T) {
		doc := documents(scalars(), 3).Draw(t, "document")
		template, problems := env.Template(doc, nil, "")
		if problems != nil {
			t.Fatal(problems)
		}
		got, err := template.Render(nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(doc, got); diff != "" {
			t.Fatal(diff)
		}
		if literal, ok := template.Literal(); !ok || !cmp.Equal(doc, literal) {
			t.Fatal("it isn't its own literal")
		}
	})
}

func TestRenderPartialEqualsRenderWithoutMissingValues(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	expressions := rapid.SampledFrom([]any{
		"${vpc.status.id}", "a-${schema.spec.name}", "${schema.spec.tags}", "${vpc.status.?privateSubnet2ID}",
		"${vpc.status.subnets.map(s, s.size)}", "${raw}", "${schema.spec.env}",
	})
	rapid.Check(t, func(t *rapid.T) {
		doc := documents(rapid.OneOf(expressions, scalars()), 3).Draw(t, "document")
		template, problems := env.Template(doc, nil, "")
		if problems != nil {
			t.Fatal(problems)
		}
		want, err := template.Render(vars)
		if err != nil {
			t.Fatal(err)
		}
		got, missing := template.RenderPartial(nil, vars, nil)
		if len(missing) > 0 {
			t.Fatal(missing)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestRenderPartialKeepsFormerValues(t *testing.T) {
	env := testEnv(t)
	template, problems := env.Template(map[string]any{
		"ids": []any{"${vpc.status.id}", "${vpc.status.privateSubnet2ID}"}, "new": "${raw.x}",
	}, nil, "status")
	if problems != nil {
		t.Fatal(problems)
	}
	var asked []string
	got, missing := template.RenderPartial(nil, worldVars(t), func(at []any, _ error) (any, bool) {
		asked = append(asked, fmt.Sprint(at))
		return "before", at[0] == "ids"
	})
	want := map[string]any{"ids": []any{"vpc-1", "before"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"[ids 1]", "[new]"}, asked); diff != "" || len(missing) != 2 {
		t.Error(diff, missing)
	}
}

func TestRenderedDocumentsShareNothing(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	template, _ := env.Template(map[string]any{"a": "${vpc.status}", "b": map[string]any{"c": []any{"x"}}, "d": `${{"x": raw}}`}, nil, "")
	for range 2 {
		got, err := template.Render(vars)
		if err != nil {
			t.Fatal(err)
		}
		m := got.(map[string]any)
		m["a"].(map[string]any)["id"] = "changed"
		m["b"].(map[string]any)["c"].([]any)[0] = "changed"
		m["d"].(map[string]any)["x"].(map[string]any)["a"] = "changed"
	}
	if diff := cmp.Diff(worldVars(t), vars); diff != "" {
		t.Error(diff)
	}
	again, _ := template.Render(vars)
	if again.(map[string]any)["b"].(map[string]any)["c"].([]any)[0] != "x" {
		t.Error("the template was changed through what it rendered")
	}
}

func TestConcurrentEvaluation(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				p, problems := env.Compile(`vpc.status.subnets.map(s, s.id + vpc.status.id).size() + vpc.status.subnets[5].size`, "")
				if problems != nil {
					t.Error(problems)
					return
				}
				if _, err := p.Eval(vars); err == nil {
					t.Error("want an error")
				}
			}
		})
	}
	group.Wait()
}

func FuzzCompile(f *testing.F) {
	env, vars := testEnv(f), worldVars(f)
	for _, seed := range []string{
		`vpc.status.id`, `has(vpc.status.id) ? 1 : 2`, `raw.a[?0].?b`, `vpcs.filter(v, v.status.id == "").map(v, v.spec)`,
		`{"a": [1, 2.0, b"x", null]}`, `cel.bind(x, raw, x.a)`, `json.marshal(raw)`, `[1].map(i, schema.spec.tags[i])`, `schema.spec.`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		// Evaluation is bounded by cost, so a slow one is a hole in the limits.
		slow := time.AfterFunc(3*time.Second, func() { panic("it takes too long: " + source) })
		defer slow.Stop()
		p, problems := env.Compile(source, "x")
		if (p == nil) != (len(problems) > 0) {
			t.Fatal("want a program or else diagnostics")
		}
		for _, d := range problems {
			_ = d.String()
		}
		if p == nil {
			return
		}
		_, err := p.Eval(vars)
		switch err.(type) {
		case nil, *Pending, *Failure, *LimitExceeded:
		default:
			t.Fatalf("an error of type %T", err)
		}
	})
}
