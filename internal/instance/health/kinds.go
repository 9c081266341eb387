package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
)

// The status of these kinds says more than kstatus reads. Each function returns why an object isn't ready; empty if it is.
var reasonsByKind = map[schema.GroupKind]func(*unstructured.Unstructured) string{
	{Kind: "Pod"}:                   pod,
	{Kind: "PersistentVolume"}:      volume,
	{Kind: "ReplicationController"}: replicationController,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: signingRequest,
	{Group: "ops.crossplane.io", Kind: "Operation"}:                   operation,
}

// pod is not ready if it has failed; kstatus counts it as complete.
func pod(o *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if phase != "Failed" {
		return ""
	}
	why := "Failed: Pod has failed"
	for _, field := range []string{"reason", "message"} {
		if text, _, _ := unstructured.NestedString(o.Object, "status", field); text != "" {
			why += ": " + text
		}
	}
	return why
}

// volume is ready when it is available or bound.
func volume(o *unstructured.Unstructured) string {
	switch phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase {
	case "Available", "Bound":
		return ""
	case "":
		return "InProgress: PersistentVolume has no phase yet"
	default:
		return "InProgress: PersistentVolume is in the " + phase + " phase"
	}
}

// replicationController is ready when it has exactly its replicas.
func replicationController(o *unstructured.Unstructured) string {
	wanted, ok, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if !ok {
		wanted = 1
	}
	for _, field := range []string{"replicas", "readyReplicas", "availableReplicas"} {
		if n, _, _ := unstructured.NestedInt64(o.Object, "status", field); n != wanted {
			return fmt.Sprintf("InProgress: %s: %d/%d", field, n, wanted)
		}
	}
	return ""
}

// signingRequest is ready when it was approved and has its certificate.
func signingRequest(o *unstructured.Unstructured) string {
	conditions := condition.Read(o)
	for _, bad := range []string{"Denied", "Failed"} {
		if conditions.IsTrue(bad) {
			c, _ := conditions.Get(bad)
			return "Failed: " + bad + ": " + c.Message
		}
	}
	if certificate, _, _ := unstructured.NestedString(o.Object, "status", "certificate"); certificate == "" || !conditions.IsTrue("Approved") {
		return "InProgress: the certificate has not been issued"
	}
	return ""
}

// operation is not ready if it has failed, or while its last attempt has.
func operation(o *unstructured.Unstructured) string {
	if ended, ok := condition.Read(o).Get("Succeeded"); ok && ended.Status == condition.False {
		return "Failed: " + reasonAndMessage(ended)
	}
	if problem := SyncProblem(o); problem != "" {
		return "InProgress: " + problem
	}
	return ""
}
