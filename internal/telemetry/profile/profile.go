// Package profile is the form of what the running controllers have measured: counters of each kind that they serve and of the
// functions that it calls. All of them only grow while the program runs, so that the
// difference of two readings is what happened in between.
// See docs/design/0017-what-the-program-shows.md.
//
// Pure: it decides from values alone.
package profile

import (
	"slices"
	"time"
)

// Reading is what was measured until one point in time. Programs read it: fields may be added, and none changes its name or
// meaning.
type Reading struct {
	// Began is when the measurement began: with the program. Readings with different ones are of different programs.
	Began time.Time `json:"began"`
	At    time.Time `json:"at"`
	Kinds []Kind    `json:"kinds"`
}

// Kind is what was measured of a kind.
type Kind struct {
	Group string `json:"group"` // empty for the core group
	Kind  string `json:"kind"`
	// Instances counts the objects, Ready those that are ready, and Unreported those whose status does not say it.
	Instances  int `json:"instances"`
	Ready      int `json:"ready"`
	Unreported int `json:"unreported,omitempty"`
	// Waiting counts the objects that wait to be reconciled, Active those that are being reconciled, and Retries those whose
	// last reconcile failed.
	Waiting int `json:"waiting"`
	Active  int `json:"active"`
	Retries int `json:"retries"`
	// OldestSeconds is how long the one that has waited longest has waited.
	OldestSeconds float64 `json:"oldestSeconds"`
	// Reconciles are the durations of reconciles, and Failed counts those that failed.
	Reconciles Histogram `json:"reconciles"`
	Failed     uint64    `json:"failed"`
	// Requests counts the requests to the API server in reconciles. Those of watches serve all kinds, and are of none.
	Requests  uint64     `json:"requests"`
	Functions []Function `json:"functions"`
}

// Function is what calls of a function took.
type Function struct {
	Name   string    `json:"name"`
	Calls  Histogram `json:"calls"`
	Failed uint64    `json:"failed"`
}

// Since returns what happened after an earlier reading of the same program. What the controllers have forgotten in between
// begins at zero. An earlier reading of another program is ignored.
func (r Reading) Since(earlier Reading) Reading {
	if !r.Began.Equal(earlier.Began) {
		return r
	}
	type name struct{ group, kind string }
	before := map[name]Kind{}
	for _, k := range earlier.Kinds {
		before[name{k.Group, k.Kind}] = k
	}
	r.Began, r.Kinds = earlier.At, slices.Clone(r.Kinds)
	for i, k := range r.Kinds {
		r.Kinds[i] = k.since(before[name{k.Group, k.Kind}])
	}
	return r
}

func (k Kind) since(earlier Kind) Kind {
	if k.Reconciles.Count() < earlier.Reconciles.Count() {
		return k // it was forgotten, and is served again
	}
	k.Reconciles = k.Reconciles.since(earlier.Reconciles)
	k.Failed = growth(k.Failed, earlier.Failed)
	k.Requests = growth(k.Requests, earlier.Requests)
	functions := map[string]Function{}
	for _, f := range earlier.Functions {
		functions[f.Name] = f
	}
	k.Functions = slices.Clone(k.Functions)
	for i, f := range k.Functions {
		was := functions[f.Name]
		f.Calls, f.Failed = f.Calls.since(was.Calls), growth(f.Failed, was.Failed)
		k.Functions[i] = f
	}
	return k
}

// growth is how much a counter has grown. One that is smaller than before began again at zero.
func growth(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}
