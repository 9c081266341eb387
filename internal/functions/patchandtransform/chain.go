package patchandtransform

import (
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Chain are transforms one after the other, for other functions that have some.
type Chain []transform

// Check tells all that is wrong with the transforms of a list.
func (c Chain) Check(at object.Path, problems *diag.List) {
	for i := range c {
		check{problems: problems}.transform(at.Index(i), &c[i])
	}
}

// Apply makes another value of a value. The transforms have to be sound.
func (c Chain) Apply(value any) (any, error) { return apply(c, value) }
