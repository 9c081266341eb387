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
	ConfigurationKind         = "Configuration"
	ConfigurationRevisionKind = "ConfigurationRevision"
	FunctionKind              = "Function"
	FunctionRevisionKind      = "FunctionRevision"
	ProviderKind              = "Provider"
	ProviderRevisionKind      = "ProviderRevision"
)

// Finalizer is on packages: the garbage collector deletes what a package has installed once it is removed. A deletion in the
// foreground would not wait for it, so the policy espalier-packages (internal/serving/admission) refuses one.
const Finalizer = "espalier.dev/package"

// PackageLabel names the package of a revision.
const PackageLabel = "pkg.crossplane.io/package"

// FamilyLabel names the family of a provider, on its revisions.
const FamilyLabel = "pkg.crossplane.io/provider-family"

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{}, &FunctionRevision{}, &FunctionRevisionList{},
		&Provider{}, &ProviderList{}, &ProviderRevision{}, &ProviderRevisionList{},
		&Configuration{}, &ConfigurationList{}, &ConfigurationRevision{}, &ConfigurationRevisionList{})
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

// EndpointAnnotation on a Function is the address, host:port, of a function that its users run, for example of a
// Service. It is called with mutual TLS.
const EndpointAnnotation = "espalier.dev/endpoint"

// RuntimeDevelopment is the RuntimeAnnotation's value for a function that runs already, without TLS, and
// DefaultDevelopmentTarget its address if the Function names none.
const (
	RuntimeDevelopment       = "Development"
	DefaultDevelopmentTarget = "localhost:9443"
)

// Capabilities of packages.
const (
	// CapabilityComposition is the capability of a function that compositions can call. A package that names no capabilities
	// has it.
	CapabilityComposition = "composition"
	// CapabilityOperation is the capability of a function that operations can call.
	CapabilityOperation = "operation"
	// CapabilitySafeStart is the capability of a provider that starts without its kinds, and begins to serve each one when it is
	// activated.
	CapabilitySafeStart = "safe-start"
)
