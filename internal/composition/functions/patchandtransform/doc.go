// Package patchandtransform implements function-patch-and-transform as a built-in function: it composes resources
// from templates and copies values between them, the composite and the environment.
//
// The same input gives the same resources, the same readiness and the same severity of results as upstream. It
// differs in its messages about mistakes: it reports all of them at once, and the ones that may have no effect as a
// Warning. Unlike upstream, it limits the lengths of lists, paths and the strings that transforms make.
//
// Patches copy from observed to desired state: from the composite and the environment to the desired resource of a
// template, and from its observed resource to the desired composite and the environment. Values are converted with
// JSON, so whole numbers are integers.
//
// Pure: it decides from values alone.
package patchandtransform

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-patch-and-transform"
	PackageName = "crossplane-contrib-function-patch-and-transform"
)

// The kind of its input, and the key of the environment in the pipeline's context.
const (
	APIVersion     = "pt.fn.crossplane.io/v1beta1"
	Kind           = "Resources"
	EnvironmentKey = "apiextensions.crossplane.io/environment"
)
