package telemetry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry/profile"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
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
	got := profileOf(p)
	var twice, once profile.Histogram
	once.Observe(time.Second)
	twice.Observe(time.Second)
	twice.Observe(time.Second)
	want := profile.Kind{
		Group: "kro.run", Kind: "Web", Reconciles: twice, Failed: 1, Requests: 4,
		Functions: []profile.Function{{Name: "a", Calls: once, Failed: 1}, {Name: "b", Calls: once}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNothingIsMeasuredOutsideOfAReconcile(t *testing.T) {
	kind := ProfileOf(t.Context())
	kind.ObserveCall("f", 1, true)
}

func TestTheFunctionsOfAKindAreBounded(t *testing.T) {
	p := profilerOf()
	kind := ProfileOf(p.Context(t.Context(), webKind))
	for i := range 2 * maxProfiledFunctions {
		kind.ObserveCall(fmt.Sprint(i), 1, false)
	}
	if got := profileOf(p); len(got.Functions) != maxProfiledFunctions {
		t.Errorf("%d functions", len(got.Functions))
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
	if r.Kinds[0].Requests != 0 || r.Kinds[0].Functions == nil || len(p.kinds) != maxProfiledKinds {
		t.Errorf("%d kinds are kept, and of one more: %+v", len(p.kinds), r.Kinds[0])
	}
}

// BenchmarkProfiledReconcile is what measuring a reconcile with five requests costs.
func BenchmarkProfiledReconcile(b *testing.B) {
	p := profilerOf(webKind)
	b.ReportAllocs()
	for b.Loop() {
		ctx := p.Context(b.Context(), webKind)
		for range 5 {
			CountRequest(ctx)
		}
		p.Observe(reconcile.Run{Kind: webKind, Took: time.Millisecond})
	}
}
