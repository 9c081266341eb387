// Package sequencer implements function-sequencer as a built-in function: it leaves out composed resources until others are ready,
// and protects resources from deletion while others that depend on them exist.
//
// Pure: it decides from values alone.
package sequencer

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-sequencer"
	PackageName = "crossplane-contrib-function-sequencer"
)
