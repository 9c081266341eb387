package graph

import "slices"

// ReservedIDs lists, sorted, the names that no node and no iterator can have.
func ReservedIDs() []string { return slices.Sorted(slices.Values(reserved)) }
