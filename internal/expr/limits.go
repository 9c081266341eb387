package expr

import "cmp"

// Limits bound each expression. A field that is zero takes its default.
type Limits struct {
	// Length is the number of bytes an expression may have. Default 16 KiB.
	Length int
	// Depth is how many brackets an expression may open inside each other.
	// Default 64.
	Depth int
	// Cost is what one evaluation may cost, in CEL's units: a tenth of a second
	// or so. Default 1,000,000, as the API server allows a validation rule.
	Cost uint64
	// Size is how many bytes a result may have as JSON, roughly. Default 4 MiB,
	// more than an object may have.
	Size int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Length: cmp.Or(l.Length, 16<<10),
		Depth:  cmp.Or(l.Depth, 64),
		Cost:   cmp.Or(l.Cost, 1_000_000),
		Size:   cmp.Or(l.Size, 4<<20),
	}
}
