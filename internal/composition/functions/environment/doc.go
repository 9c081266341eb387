// Package environment implements function-environment-configs as a built-in function: it
// merges the data of EnvironmentConfigs into the environment in the pipeline's context.
//
// The same input gives the same environment as upstream. It differs in two ways: it reports
// all mistakes of an input at once, and default data is used even if no EnvironmentConfig
// is selected.
//
// Pure: it decides from values alone.
package environment

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-environment-configs"
	PackageName = "crossplane-contrib-function-environment-configs"
)

// The kind that it reads, and the key of the environment in the pipeline's context.
const (
	apiVersion = "apiextensions.crossplane.io/v1beta1"
	kind       = "EnvironmentConfig"
	contextKey = "apiextensions.crossplane.io/environment"
)
