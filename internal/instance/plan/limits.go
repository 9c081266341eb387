package plan

import (
	"cmp"
	"fmt"
)

// Limits bound what one reconcile of an instance may compute and create. A zero field is its
// default.
type Limits struct {
	// Cost bounds the CEL cost of all expressions in one reconcile together. Default MaxCost.
	Cost uint64 `json:"celCost"`
	// Bytes bounds the approximate size of all values that one composition computes or copies
	// together. Default MaxBytes.
	Bytes int `json:"bytes"`
	// Objects bounds the objects that an instance consists of. Default MaxObjects.
	Objects int `json:"objects"`
	// Depth bounds how deeply instances are nested: an instance that no other created has depth
	// 1. Default MaxDepth.
	Depth int `json:"depth"`
}

// Default limits of an instance.
const (
	// MaxCost is about a second.
	MaxCost    = 10_000_000
	MaxBytes   = 32 << 20
	MaxObjects = 5000
	MaxDepth   = 10
)

// WithDefaults returns the limits with defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Cost:    cmp.Or(l.Cost, MaxCost),
		Bytes:   cmp.Or(l.Bytes, MaxBytes),
		Objects: cmp.Or(l.Objects, MaxObjects),
		Depth:   cmp.Or(l.Depth, MaxDepth),
	}
}

// Limit names a limit of an instance in metrics.
type Limit string

// The limits of an instance.
const (
	CostLimit    Limit = "cel-cost"
	BytesLimit   Limit = "bytes"
	ObjectsLimit Limit = "objects"
	DepthLimit   Limit = "depth"
)

// Field is the field of the configuration file that sets the limit.
func (l Limit) Field() string {
	if l == CostLimit {
		return "instanceLimits.celCost"
	}
	return "instanceLimits." + string(l)
}

// TooMany is the problem of an instance that would have more objects than one may, with some of
// them.
func (l Limits) TooMany(objects int, with string) Problem {
	return Problem{
		Reason:  LimitExceeded,
		Message: fmt.Sprintf("with %s the instance has %d objects, over the limit of %d (%s)", with, objects, l.WithDefaults().Objects, ObjectsLimit.Field()),
	}
}
