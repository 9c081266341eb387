package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "pkg.crossplane.io", Version: "v1"}

// Kinds of this package.
const (
	FunctionKind         = "Function"
	FunctionRevisionKind = "FunctionRevision"
)

// PackageLabel names the package of a revision.
const PackageLabel = "pkg.crossplane.io/package"

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{}, &FunctionRevision{}, &FunctionRevisionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Annotations on a Function that say that its author runs it. The dialect's tool that
// renders compositions knows them.
const (
	// RuntimeAnnotation says how the function is run.
	RuntimeAnnotation = "render.crossplane.io/runtime"
	// DevelopmentTargetAnnotation is the address of such a function, as a gRPC target.
	DevelopmentTargetAnnotation = "render.crossplane.io/runtime-development-target"
)

// RuntimeDevelopment is the RuntimeAnnotation's value for a function that runs already, without TLS, and
// DefaultDevelopmentTarget its address if the Function names none.
const (
	RuntimeDevelopment       = "Development"
	DefaultDevelopmentTarget = "localhost:9443"
)

// CapabilityComposition is the capability of a function that compositions can call. A
// package that names no capabilities has it.
const CapabilityComposition = "composition"
