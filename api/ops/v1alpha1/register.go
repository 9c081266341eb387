package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "ops.crossplane.io", Version: "v1alpha1"}

// Kinds of this package.
const (
	OperationKind      = "Operation"
	CronOperationKind  = "CronOperation"
	WatchOperationKind = "WatchOperation"
)

// Labels on Operations: the object that made them.
const (
	CronOperationLabel  = "ops.crossplane.io/cronoperation"
	WatchOperationLabel = "ops.crossplane.io/watchoperation"
)

// Annotations on Operations of a WatchOperation: they name the object that changed.
const (
	WatchedAPIVersionAnnotation      = "ops.crossplane.io/watched-resource-apiversion"
	WatchedKindAnnotation            = "ops.crossplane.io/watched-resource-kind"
	WatchedNameAnnotation            = "ops.crossplane.io/watched-resource-name"
	WatchedNamespaceAnnotation       = "ops.crossplane.io/watched-resource-namespace"
	WatchedResourceVersionAnnotation = "ops.crossplane.io/watched-resource-resourceversion"
)

// WatchedRequirement is the name of the requirement by which functions get the watched object.
const WatchedRequirement = "ops.crossplane.io/watched-resource"

// DeletedResourceVersion is the resourceVersion of the object that stands for a deleted one.
const DeletedResourceVersion = "ops.crossplane.io/synthetic-deleted"

// WatchOperationFinalizer is a finalizer that Crossplane puts on WatchOperations.
const WatchOperationFinalizer = "watchoperation.ops.crossplane.io"

// Types of conditions.
const (
	// TypeSucceeded: whether an Operation has ended, and how.
	TypeSucceeded = "Succeeded"
	// TypeValidPipeline: all functions can be called by operations.
	TypeValidPipeline = "ValidPipeline"
	// TypeSynced: False while an attempt, or a reconcile, is to be repeated because it has failed. An Operation that has ended is synced.
	TypeSynced = "Synced"
	// TypeScheduling: whether a CronOperation makes Operations.
	TypeScheduling = "Scheduling"
	// TypeWatching: whether a WatchOperation makes Operations.
	TypeWatching = "Watching"
)

// Reasons of these conditions.
const (
	ReasonPipelineRunning = "PipelineRunning"
	ReasonPipelineSuccess = "PipelineSuccess"
	ReasonPipelineError   = "PipelineError"

	ReasonValidPipeline       = "ValidPipeline"
	ReasonMissingCapabilities = "MissingCapabilities"

	ReasonReconcileSuccess = "ReconcileSuccess"
	ReasonReconcileError   = "ReconcileError"
	ReasonReconcilePaused  = "ReconcilePaused"

	ReasonScheduleActive  = "ScheduleActive"
	ReasonScheduleInvalid = "ScheduleInvalid"
	ReasonSchedulePaused  = "SchedulePaused"

	ReasonWatchActive = "WatchActive"
	ReasonWatchFailed = "WatchFailed"
	ReasonWatchPaused = "WatchPaused"
)
