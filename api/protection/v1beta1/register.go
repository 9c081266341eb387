package v1beta1

import (
	"embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "protection.crossplane.io", Version: "v1beta1"}

// Kinds of this package.
const (
	UsageKind        = "Usage"
	ClusterUsageKind = "ClusterUsage"
)

// InUseLabel is on objects that are used, so the API server asks before it deletes one.
const InUseLabel = "crossplane.io/in-use"

// DetailsAnnotation says in a line what a usage is about.
const DetailsAnnotation = "crossplane.io/usage-details"

// UserAnnotation, on a usage, names the incarnation of the using object, as Kind.group/name/uid. An owner reference
// names it too, but the garbage collector removes that once the using object is gone, if the usage has other owners.
const UserAnnotation = "espalier.dev/used-by"

// Finalizer keeps a usage until the used object no longer carries its marks.
const Finalizer = "usage.apiextensions.crossplane.io"

// DeletionAttemptAnnotation is on used objects that a user has tried to delete; its value is the propagation policy.
const DeletionAttemptAnnotation = "usage.crossplane.io/deletion-attempt-with-policy"

// CRDs holds the generated CustomResourceDefinitions of this package's kinds, one YAML
// document a file.
//
//go:embed crds/*.yaml
var CRDs embed.FS

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Usage{}, &UsageList{}, &ClusterUsage{}, &ClusterUsageList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
