package expr

import "cmp"

// Default limits of each expression.
const (
	// MaxLength bounds the bytes of an expression.
	MaxLength = 16 << 10
	// MaxDepth bounds how deeply brackets may be nested.
	MaxDepth = 64
	// MaxCost bounds the CEL cost of one evaluation: the API server allows a validation
	// rule as much.
	MaxCost = 1_000_000
	// MaxSize bounds the bytes of a result as JSON: more than an object may have.
	MaxSize = 4 << 20
)

// Limits bound each expression. A field that is zero takes its default.
type Limits struct {
	// Length bounds the bytes of an expression. Default MaxLength.
	Length int
	// Depth bounds how deeply brackets are nested. Default MaxDepth.
	Depth int
	// Cost bounds one evaluation, in CEL's cost units. The default MaxCost is about a tenth
	// of a second.
	Cost uint64
	// Size bounds the approximate bytes of a result as JSON. Default MaxSize.
	Size int
	// NoTime refuses time.now().
	NoTime bool
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Length: cmp.Or(l.Length, MaxLength),
		Depth:  cmp.Or(l.Depth, MaxDepth),
		Cost:   cmp.Or(l.Cost, MaxCost),
		Size:   cmp.Or(l.Size, MaxSize),
		NoTime: l.NoTime,
	}
}
