package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry/profile"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Profiler measures the costs of each kind that controllers run for. Its memory is bounded, however many kinds and
// functions there are. It is safe for concurrent use.
type Profiler struct {
	began time.Time
	// served reports the kinds that controllers run for. What was measured of other kinds may be forgotten.
	served func() []schema.GroupVersionKind

	mu    sync.Mutex
	kinds map[schema.GroupKind]*KindProfile
}

const (
	// maxProfiledKinds bounds the kinds that are measured at the same time.
	maxProfiledKinds = 4096
	// maxProfiledFunctions bounds the functions that are measured for a kind.
	maxProfiledFunctions = 100
)

// NewProfiler returns a profiler of the kinds that served returns.
func NewProfiler(now time.Time, served func() []schema.GroupVersionKind) *Profiler {
	return &Profiler{began: now, served: served, kinds: map[schema.GroupKind]*KindProfile{}}
}

// KindProfile is what was measured of one kind. It is safe for concurrent use; nil measures nothing.
type KindProfile struct {
	requests atomic.Uint64

	mu         sync.Mutex
	reconciles profile.Histogram
	failed     uint64
	functions  map[string]*profile.Function
}

// It is nil if there are too many.
func (p *Profiler) kind(gk schema.GroupKind) *KindProfile {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k, known := p.kinds[gk]; known {
		return k
	}
	if len(p.kinds) >= maxProfiledKinds {
		p.forgetUnserved()
	}
	if len(p.kinds) >= maxProfiledKinds {
		return nil
	}
	k := &KindProfile{functions: map[string]*profile.Function{}}
	p.kinds[gk] = k
	return k
}

func (p *Profiler) forgetUnserved() {
	served := map[schema.GroupKind]bool{}
	for _, gvk := range p.served() {
		served[gvk.GroupKind()] = true
	}
	maps.DeleteFunc(p.kinds, func(gk schema.GroupKind, _ *KindProfile) bool { return !served[gk] })
}

type profileKey struct{}

// Context returns a context for a reconcile of a kind. ProfileOf attributes the costs to the kind.
func (p *Profiler) Context(ctx context.Context, kind schema.GroupVersionKind) context.Context {
	return context.WithValue(ctx, profileKey{}, p.kind(kind.GroupKind()))
}

// ProfileOf returns the profile of the kind that is reconciled in a context; nil if none is.
func ProfileOf(ctx context.Context) *KindProfile {
	k, _ := ctx.Value(profileKey{}).(*KindProfile)
	return k
}

// Observe measures a reconcile.
func (p *Profiler) Observe(run reconcile.Run) {
	k := p.kind(run.Kind.GroupKind())
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reconciles.Observe(run.Took)
	if run.Err != nil {
		k.failed++
	}
}

// CountRequest counts a request to the API server for the kind that is reconciled in a context.
func CountRequest(ctx context.Context) {
	if k := ProfileOf(ctx); k != nil {
		k.requests.Add(1)
	}
}

// ObserveCall measures a call of a function.
func (k *KindProfile) ObserveCall(function string, took time.Duration, failed bool) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.functions[function]
	if f == nil {
		if len(k.functions) >= maxProfiledFunctions {
			return
		}
		f = &profile.Function{Name: function}
		k.functions[function] = f
	}
	f.Calls.Observe(took)
	if failed {
		f.Failed++
	}
}

// Fill adds what was measured to the kinds of a reading, and sets its times.
func (p *Profiler) Fill(r *profile.Reading, now time.Time) {
	r.Began, r.At = p.began.UTC(), now.UTC()
	for i := range r.Kinds {
		gk := schema.GroupKind{Group: r.Kinds[i].Group, Kind: r.Kinds[i].Kind}
		p.mu.Lock()
		k := p.kinds[gk]
		p.mu.Unlock()
		k.fill(&r.Kinds[i])
	}
}

func (k *KindProfile) fill(out *profile.Kind) {
	out.Functions = []profile.Function{}
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out.Reconciles, out.Failed, out.Requests = k.reconciles.Clone(), k.failed, k.requests.Load()
	for _, name := range slices.Sorted(maps.Keys(k.functions)) {
		f := *k.functions[name]
		f.Calls = f.Calls.Clone()
		out.Functions = append(out.Functions, f)
	}
}
