package model

import (
	"slices"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// paths is a set of property paths as a tree. The zero value, nil, is empty.
type paths struct {
	below map[string]*paths
	// has reports whether the path that ends here is in the set, with everything below it.
	has bool
}

func newPaths(all ...[]resourcetype.Path) *paths {
	root := &paths{}
	for _, path := range slices.Concat(all...) {
		at := root
		for _, name := range path {
			if at.below == nil {
				at.below = map[string]*paths{}
			}
			next := at.below[name]
			if next == nil {
				next = &paths{}
				at.below[name] = next
			}
			at = next
		}
		at.has = true
	}
	return root
}

func (p *paths) field(name string) *paths {
	switch {
	case p == nil, p.has:
		return p
	case p.below[name] != nil:
		return p.below[name]
	}
	return p.below["*"] // the values of a map
}

// Some schemas leave the "*" of arrays out.
func (p *paths) item() *paths {
	if p == nil || p.has || p.below["*"] == nil {
		return p
	}
	return p.below["*"]
}

func (p *paths) isIn() bool { return p != nil && p.has }

func (p *paths) isEmpty() bool { return p == nil || !p.has && len(p.below) == 0 }

func without(all, others []resourcetype.Path) []resourcetype.Path {
	return slices.DeleteFunc(slices.Clone(all), func(p resourcetype.Path) bool {
		return slices.ContainsFunc(others, func(o resourcetype.Path) bool { return slices.Equal(p, o) })
	})
}
