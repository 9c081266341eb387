package patchandtransform

import (
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Transforms is a list of transforms to apply in order, for the input of other functions.
type Transforms []transform

// Validate adds all problems of the transforms.
func (c Transforms) Validate(at object.Path, problems *diag.List) {
	for i := range c {
		validator{problems: problems}.transform(at.Index(i), &c[i])
	}
}

// Apply applies the transforms to a value. The transforms must be valid.
func (c Transforms) Apply(value any) (any, error) { return apply(c, value) }
