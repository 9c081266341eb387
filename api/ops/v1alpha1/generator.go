package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// ConcurrencyPolicy is what happens when an operation is due while another one runs.
type ConcurrencyPolicy string

// Concurrency policies.
const (
	// Allow runs both.
	Allow ConcurrencyPolicy = "Allow"
	// Forbid runs the second one after the first.
	Forbid ConcurrencyPolicy = "Forbid"
	// Replace deletes the running one.
	Replace ConcurrencyPolicy = "Replace"
)

// OperationSettings are what CronOperations and WatchOperations have in common.
type OperationSettings struct {
	// ConcurrencyPolicy is what happens when an operation is due while another one runs.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	// +kubebuilder:default=Allow
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// SuccessfulHistoryLimit is how many operations that have succeeded are kept.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	SuccessfulHistoryLimit *int32 `json:"successfulHistoryLimit,omitempty"`

	// FailedHistoryLimit is how many operations that have failed are kept.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	FailedHistoryLimit *int32 `json:"failedHistoryLimit,omitempty"`

	// OperationTemplate is what operations are made from.
	OperationTemplate OperationTemplate `json:"operationTemplate"`
}

// OperationsStatus is what the statuses of CronOperations and WatchOperations have in common.
type OperationsStatus struct {
	// Conditions are Scheduling or Watching, and Synced.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// RunningOperationRefs are the operations that have not ended.
	//
	// +listType=atomic
	// +optional
	RunningOperationRefs []RunningOperationRef `json:"runningOperationRefs,omitempty"`

	// LastScheduleTime is when an operation was last made, or the time that it was made for.
	//
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// LastSuccessfulTime is when an operation last succeeded.
	//
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
}

// RunningOperationRef refers to an operation.
type RunningOperationRef struct {
	Name string `json:"name"`
}

// CronOperation makes operations at certain times.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=cronop
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name is a label of operations: at most 63 characters"
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type=='Synced')].status"
// +kubebuilder:printcolumn:name="SCHEDULE",type="string",JSONPath=".spec.schedule"
// +kubebuilder:printcolumn:name="LAST-SCHEDULE",type="date",JSONPath=".status.lastScheduleTime"
// +kubebuilder:printcolumn:name="LAST-SUCCESS",type="date",JSONPath=".status.lastSuccessfulTime"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type CronOperation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CronOperationSpec `json:"spec,omitempty"`
	Status OperationsStatus  `json:"status,omitempty"`
}

// CronOperationList is a list of CronOperation.
//
// +kubebuilder:object:root=true
type CronOperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronOperation `json:"items"`
}

// CronOperationSpec is the spec of a cron operation.
type CronOperationSpec struct {
	// Schedule is a schedule in cron's format, in UTC unless it begins with CRON_TZ=.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Schedule string `json:"schedule"`

	// StartingDeadlineSeconds is how late an operation may begin.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	OperationSettings `json:",inline"`
}

// WatchOperation makes operations for changes of objects.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=watchop
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name is a label of operations: at most 63 characters"
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type=='Synced')].status"
// +kubebuilder:printcolumn:name="WATCHING",type="string",JSONPath=".status.conditions[?(@.type=='Watching')].status"
// +kubebuilder:printcolumn:name="KIND",type="string",JSONPath=".spec.watch.kind"
// +kubebuilder:printcolumn:name="COUNT",type="integer",JSONPath=".status.watchingResources"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type WatchOperation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WatchOperationSpec   `json:"spec,omitempty"`
	Status WatchOperationStatus `json:"status,omitempty"`
}

// WatchOperationList is a list of WatchOperation.
//
// +kubebuilder:object:root=true
type WatchOperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WatchOperation `json:"items"`
}

// WatchOperationSpec is the spec of a watch operation.
type WatchOperationSpec struct {
	// Watch selects the objects.
	Watch WatchSpec `json:"watch"`

	OperationSettings `json:",inline"`
}

// WatchSpec selects objects of a kind.
type WatchSpec struct {
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`

	// MatchLabels are labels that the objects have.
	//
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// Namespace is the namespace of the objects; all, if it is empty.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// WatchOperationStatus is the status of a watch operation.
type WatchOperationStatus struct {
	OperationsStatus `json:",inline"`

	// WatchingResources is how many objects are watched.
	//
	// +optional
	WatchingResources int64 `json:"watchingResources,omitempty"`

	// Handled are the changes that operations were made for. It is an addition of Espalier's.
	//
	// +optional
	Handled *HandledChanges `json:"handled,omitempty"`
}

// HandledChanges are the changes that operations were made for.
type HandledChanges struct {
	// Selector is a digest of spec.watch.
	Selector string `json:"selector"`

	// ResourceVersion is the highest one that an operation was made for: what is newer is due.
	//
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// Deletions are deleted objects for which an operation is due.
	//
	// +listType=atomic
	// +optional
	Deletions []DeletedObject `json:"deletions,omitempty"`
}

// DeletedObject is an object that does not exist any more.
type DeletedObject struct {
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`

	// UID is the UID that it had.
	UID string `json:"uid"`
}
