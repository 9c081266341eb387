package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/profile"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

var (
	profileBegan = time.Unix(1000, 0).UTC()
	webKind      = schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "Web"}
)

func profilerOf(served ...schema.GroupVersionKind) *Profiler {
	return NewProfiler(profileBegan, func() []schema.GroupVersionKind { return served })
}

// profileOf reads the profile of Web.
func profileOf(p *Profiler) profile.Kind {
	r := profile.Reading{Kinds: []profile.Kind{{Group: webKind.Group, Kind: webKind.Kind}}}
	p.Fill(&r, profileBegan.Add(time.Minute))
	return r.Kinds[0]
}

func TestWhatAReconcileCostsIsCountedForItsKind(t *testing.T) {
	p := profilerOf(webKind)
	ctx := p.Context(t.Context(), webKind)
	other := p.Context(t.Context(), schema.GroupVersionKind{Group: "example.com", Kind: "Web"})
	for range 3 {
		CountRequest(ctx)
	}
	CountRequest(context.WithoutCancel(ctx)) // of a call that several share
	CountRequest(other)
	CountRequest(t.Context())
	p.Observe(reconcile.Run{Kind: webKind, Took: time.Second})
	p.Observe(reconcile.Run{Kind: webKind, Took: time.Second, Result: reconcile.Fail(errors.New("no"))})
	ProfileOf(ctx).ObserveCall("b", time.Second, false)
	ProfileOf(ctx).ObserveCall("a", time.Second, true)
	ProfileOf(ctx).AddExpression(profile.Expression{Field: "x", Text: "1+1", Evaluations: 1, Time: 5, Cost: 2})
	ProfileOf(ctx).AddExpression(profile.Expression{Field: "x", Text: "1+1", Evaluations: 2, Time: 10, Cost: 4})
	ProfileOf(ctx).AddExpression(profile.Expression{Field: "y", Text: strings.Repeat("y", 10_000), Evaluations: 1, Time: 100, Cost: 1})
	got := profileOf(p)
	text := got.Expressions[0].Text
	if len(text) > maxProfiledText || !strings.HasPrefix(text, "yyy") {
		t.Errorf("the text of a long expression has %d bytes", len(text))
	}
	got.Expressions[0].Text = ""
	var twice, once profile.Histogram
	once.Observe(time.Second)
	twice.Observe(time.Second)
	twice.Observe(time.Second)
	want := profile.Kind{
		Group: "kro.run", Kind: "Web", Reconciles: twice, Failed: 1, Requests: 4,
		Expressions: []profile.Expression{{Field: "y", Evaluations: 1, Time: 100, Cost: 1}, {Field: "x", Text: "1+1", Evaluations: 3, Time: 15, Cost: 6}},
		Functions:   []profile.Function{{Name: "a", Calls: once, Failed: 1}, {Name: "b", Calls: once}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNothingIsMeasuredOutsideOfAReconcile(t *testing.T) {
	kind := ProfileOf(t.Context())
	kind.AddExpression(profile.Expression{})
	kind.ObserveCall("f", 1, true)
	if kind.MeasuresNext() {
		t.Error("a composition is measured")
	}
}

func TestOneCompositionOfEightIsMeasured(t *testing.T) {
	kind := ProfileOf(profilerOf().Context(t.Context(), webKind))
	var measured []int
	for i := range 20 {
		if kind.MeasuresNext() {
			measured = append(measured, i)
		}
	}
	if diff := cmp.Diff([]int{0, 8, 16}, measured); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheMostExpensiveExpressionsAreKept(t *testing.T) {
	p := profilerOf()
	kind := ProfileOf(p.Context(t.Context(), webKind))
	const many = 10 * maxProfiledExpressions
	for range 3 {
		for i := range many {
			spent := time.Duration(1)
			if i%100 == 7 {
				spent = time.Duration(i) * time.Second
			}
			kind.AddExpression(profile.Expression{Field: fmt.Sprint(i), Evaluations: 1, Time: spent})
		}
		if len(kind.expressions) > 2*maxProfiledExpressions {
			t.Fatalf("%d expressions are kept", len(kind.expressions))
		}
	}
	for i := 0; i < 3; i++ {
		kind.ObserveCall(fmt.Sprint(i), 1, false)
	}
	for i := range 2 * maxProfiledFunctions {
		kind.ObserveCall(fmt.Sprint(i), 1, false)
	}
	got := profileOf(p)
	if len(got.Expressions) != maxProfiledExpressions || len(got.Functions) != maxProfiledFunctions {
		t.Fatalf("%d expressions and %d functions", len(got.Expressions), len(got.Functions))
	}
	for i, e := range got.Expressions[:many/100] {
		if want := fmt.Sprint(many - 93 - 100*i); e.Field != want || e.Evaluations != 3 {
			t.Fatalf("expression %d is %s with %d evaluations, not %s with 3", i, e.Field, e.Evaluations, want)
		}
	}
}

func TestKindsThatAreNotServedAreForgotten(t *testing.T) {
	p := profilerOf(webKind)
	CountRequest(p.Context(t.Context(), webKind))
	for i := range maxProfiledKinds + 10 {
		CountRequest(p.Context(t.Context(), schema.GroupVersionKind{Kind: fmt.Sprint(i)}))
	}
	if len(p.kinds) > 12 || profileOf(p).Requests != 1 {
		t.Errorf("%d kinds are kept, and %d requests of the one that is served", len(p.kinds), profileOf(p).Requests)
	}
}

func TestMoreKindsThanCanBeMeasured(t *testing.T) {
	var served []schema.GroupVersionKind
	for i := range maxProfiledKinds + 1 {
		served = append(served, schema.GroupVersionKind{Kind: fmt.Sprint(i)})
	}
	p := profilerOf(served...)
	for _, gvk := range served {
		CountRequest(p.Context(t.Context(), gvk))
		p.Observe(reconcile.Run{Kind: gvk})
	}
	r := profile.Reading{Kinds: []profile.Kind{{Kind: fmt.Sprint(maxProfiledKinds)}}}
	p.Fill(&r, profileBegan)
	if r.Kinds[0].Requests != 0 || r.Kinds[0].Functions == nil || r.Kinds[0].Expressions == nil || len(p.kinds) != maxProfiledKinds {
		t.Errorf("%d kinds are kept, and of one more: %+v", len(p.kinds), r.Kinds[0])
	}
}

// BenchmarkProfiledReconcile is what measuring a reconcile with five requests costs, without its expressions.
func BenchmarkProfiledReconcile(b *testing.B) {
	p := profilerOf(webKind)
	b.ReportAllocs()
	for b.Loop() {
		ctx := p.Context(b.Context(), webKind)
		for range 5 {
			CountRequest(ctx)
		}
		ProfileOf(ctx).MeasuresNext()
		p.Observe(reconcile.Run{Kind: webKind, Took: time.Millisecond})
	}
}

// BenchmarkProfiledExpressions is what adding the measurement of a composition with 500 expressions costs.
func BenchmarkProfiledExpressions(b *testing.B) {
	p := profilerOf(webKind)
	kind := ProfileOf(p.Context(b.Context(), webKind))
	fields := make([]string, 500)
	for i := range fields {
		fields[i] = fmt.Sprintf("spec.resources[%d].template.spec.replicas", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, field := range fields {
			kind.AddExpression(profile.Expression{Field: field, Text: "schema.spec.replicas + 1", Evaluations: 1, Time: time.Microsecond, Cost: 3})
		}
	}
}
