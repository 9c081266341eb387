// Package extraresources implements function-extra-resources as a built-in function: it reads objects of any kind into the
// pipeline's context.
//
// It differs from upstream in one way: a selector with only optional labels without values selects nothing, and is not an
// error.
//
// Pure: it decides from values alone.
package extraresources

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-extra-resources"
	PackageName = "crossplane-contrib-function-extra-resources"
)

// defaultKey is the key in the pipeline's context, unless the input has one.
const defaultKey = "apiextensions.crossplane.io/extra-resources"
