package observe

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// seenBy are the fields of the status that the controllers of Kubernetes' workloads set when they see an object for the first time.
var seenBy = map[schema.GroupKind]string{
	{Group: "apps", Kind: "Deployment"}:  "observedGeneration",
	{Group: "apps", Kind: "StatefulSet"}: "observedGeneration",
	{Group: "apps", Kind: "DaemonSet"}:   "observedGeneration",
	{Group: "apps", Kind: "ReplicaSet"}:  "observedGeneration",
	{Kind: "ReplicationController"}:      "observedGeneration",
	{Group: "batch", Kind: "Job"}:        "startTime",
	{Kind: "Pod"}:                        "conditions",
}

// unseen is the message of a workload that no controller has seen.
const unseen = "no controller has seen it yet"

// isUnseen reports whether an object is a workload that no controller has ever seen.
func isUnseen(o *unstructured.Unstructured) bool {
	field, isWorkload := seenBy[o.GroupVersionKind().GroupKind()]
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); !isWorkload || suspended || o.GetDeletionTimestamp() != nil {
		return false
	}
	_, isSeen, _ := unstructured.NestedFieldNoCopy(o.Object, "status", field)
	return !isSeen
}
