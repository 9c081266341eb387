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

// PackageLabel names the package that a revision is of.
const PackageLabel = "pkg.crossplane.io/package"

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{}, &FunctionRevision{}, &FunctionRevisionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
