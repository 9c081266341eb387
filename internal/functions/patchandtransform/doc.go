// Package patchandtransform is the function that composes resources from templates, and
// copies values between them, the composite and the environment: what
// function-patch-and-transform does as a program, inside this one.
//
// The same input gives the same resources, the same readiness and the same severity of
// results as there. It differs in what it says of mistakes: all of them are told at once,
// and a Warning tells of those that may never matter. It is bounded where that one is not:
// in the lengths of lists and paths, and of the texts that transforms make.
//
// Patches go from what is observed to what is desired: from the composite and the
// environment to the desired resource of a template, and from its observed resource to
// the desired composite and the environment. Whatever a patch makes is written as JSON
// would hold it, so that whole numbers are integers.
//
// Pure: it decides from values alone.
package patchandtransform

// The names that compositions know this function by: the one that everybody gives it, and
// the one that follows from its package.
const (
	Name        = "function-patch-and-transform"
	PackageName = "crossplane-contrib-function-patch-and-transform"
)

// The kind of its input, and where in a pipeline's context the environment is.
const (
	APIVersion     = "pt.fn.crossplane.io/v1beta1"
	Kind           = "Resources"
	EnvironmentKey = "apiextensions.crossplane.io/environment"
)
