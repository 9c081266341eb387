package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Bucket is a bucket of the sandbox cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,sandbox}
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BucketSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status BucketStatus `json:"status,omitempty"`
}

// BucketList is a list of Bucket.
//
// +kubebuilder:object:root=true
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Bucket `json:"items"`
}

// BucketSpec is the desired state of a Bucket.
type BucketSpec struct {
	resource.Spec `json:",inline"`

	ForProvider BucketParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider BucketParameters `json:"initProvider,omitempty"`
}

// BucketParameters are the properties of a bucket.
type BucketParameters struct {
	// Region is the region of the bucket; main by default.
	//
	// +optional
	Region string `json:"region,omitempty"`
	// Versioning keeps old versions of objects.
	//
	// +optional
	Versioning *bool `json:"versioning,omitempty"`
	// Public allows everybody to read.
	//
	// +optional
	Public *bool `json:"public,omitempty"`
}

// BucketStatus is the observed state of a Bucket.
type BucketStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider BucketObservation `json:"atProvider,omitempty"`
}

// BucketObservation is the bucket as observed in the cloud.
type BucketObservation struct {
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Region string `json:"region,omitempty"`
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	URL string `json:"url,omitempty"`
	// +optional
	Versioning bool `json:"versioning,omitempty"`
	// +optional
	Public bool `json:"public,omitempty"`
}
