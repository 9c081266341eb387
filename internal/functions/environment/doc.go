// Package environment is the function that reads EnvironmentConfigs and gives their data to
// the functions after it: what function-environment-configs does as a program, inside this
// one.
//
// The same input gives the same environment. It differs in what it says of mistakes: all
// of them are told at once. And what an author gives as default data counts also where no
// EnvironmentConfig is selected.
//
// Pure: it decides from values alone.
package environment

// The names that compositions know this function by: the one that everybody gives it, and
// the one that follows from its package.
const (
	Name        = "function-environment-configs"
	PackageName = "crossplane-contrib-function-environment-configs"
)

// The kind that it reads, and where in a pipeline's context the environment is.
const (
	apiVersion = "apiextensions.crossplane.io/v1beta1"
	kind       = "EnvironmentConfig"
	contextKey = "apiextensions.crossplane.io/environment"
)
