package expr

import "cmp"

// Limits of each expression, unless others are asked for.
const (
	// MaxLength is the number of bytes of an expression.
	MaxLength = 16 << 10
	// MaxDepth is how many brackets may be open inside each other.
	MaxDepth = 64
	// MaxCost is what one evaluation may cost, as much as the API server allows a
	// validation rule.
	MaxCost = 1_000_000
	// MaxSize is the number of bytes of a result as JSON: more than an object may have.
	MaxSize = 4 << 20
)

// Limits bound each expression. A field that is zero takes its default.
type Limits struct {
	// Length is the number of bytes an expression may have. Default MaxLength.
	Length int
	// Depth is how many brackets an expression may open inside each other.
	// Default MaxDepth.
	Depth int
	// Cost is what one evaluation may cost, in CEL's units: a tenth of a second
	// or so. Default MaxCost.
	Cost uint64
	// Size is how many bytes a result may have as JSON, roughly. Default MaxSize.
	Size int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Length: cmp.Or(l.Length, MaxLength),
		Depth:  cmp.Or(l.Depth, MaxDepth),
		Cost:   cmp.Or(l.Cost, MaxCost),
		Size:   cmp.Or(l.Size, MaxSize),
	}
}
