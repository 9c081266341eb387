// Package gotemplating implements function-go-templating as a built-in function: it renders templates of text/template
// with the functions of sprig, and composes the objects in their output.
//
// A template is text of a tenant's platform team that runs inside the controllers. It gets no files, network or
// environment variables, and each rendering is bounded: its steps and the bytes that it produces (spend), its output,
// the depth of its templates and of its values. text/template bounds none of these, so instrument adds calls to the
// parsed templates, and wrap surrounds each function.
//
// The response depends only on the request, except for the functions of sprig that read the clock or generate random
// values: templates use them for passwords and keys that they generate once, and keep if the resource exists.
package gotemplating

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-go-templating"
	PackageName = "crossplane-contrib-function-go-templating"
)

// APIVersion and Kind of the input.
const (
	APIVersion = "gotemplating.fn.crossplane.io/v1beta1"
	Kind       = "GoTemplate"
)

// metaVersion is the API version of objects that are for this function and not composed.
const metaVersion = "meta.gotemplating.fn.crossplane.io/v1alpha1"

const (
	nameAnnotation  = "gotemplating.fn.crossplane.io/composition-resource-name"
	readyAnnotation = "gotemplating.fn.crossplane.io/ready"
	ttlAnnotation   = "gotemplating.fn.crossplane.io/ttl"
)

// The keys of the pipeline's context that it reads and writes.
const (
	environmentKey    = "apiextensions.crossplane.io/environment"
	extraResourcesKey = "apiextensions.crossplane.io/extra-resources"
)
