package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of revisions.
var GroupVersion = schema.GroupVersion{Group: "internal.kro.run", Version: "v1alpha1"}

// GraphRevisionKind is the kind of this package.
const GraphRevisionKind = "GraphRevision"

// AddToScheme makes the kind known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &GraphRevision{}, &GraphRevisionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
