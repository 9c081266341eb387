package standin

import (
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The time that the cloud takes for an object: between half a second and one and
// a half, and always the same for the same object.
const (
	least  = 500 * time.Millisecond
	spread = time.Second
)

func delay(o *unstructured.Unstructured) time.Duration {
	return least + time.Duration(digest(o.GetKind(), o.GetNamespace(), o.GetName()))%spread
}

// done says whether the status tells of the object's current generation that it
// is there.
func done(o *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, raw := range list {
		c, _ := raw.(map[string]any)
		if c["type"] == "Ready" {
			return c["status"] == "True" && c["observedGeneration"] == o.GetGeneration()
		}
	}
	return false
}

// beginning is the status while the cloud is at work. What was there stays.
func beginning(o *unstructured.Unstructured, now time.Time) map[string]any {
	status := statusOf(o)
	status["state"] = "creating"
	reason, message := "Creating", "the cloud is making it"
	if o.GetGeneration() > 1 {
		status["state"] = "updating"
		reason, message = "Updating", "the cloud is changing it"
	}
	status["conditions"] = ready(o, "False", reason, message, now)
	return status
}

// finished is the status when the cloud has done what the spec asks for.
func finished(o *unstructured.Unstructured, now time.Time) map[string]any {
	status := statusOf(o)
	status["state"] = "available"
	id := fmt.Sprintf("%08x", digest(string(o.GetUID())))
	switch o.GetKind() {
	case "Network":
		status["networkID"] = "net-" + id
	case "Subnet":
		status["subnetID"] = "subnet-" + id
	case "ControlPlane":
		status["state"] = "active"
		status["controlPlaneID"] = "cp-" + id
		if _, has := status["endpoint"]; !has {
			status["endpoint"] = "https://" + id + ".cloud.example.com"
		}
	case "NodePool":
		status["state"] = "active"
		status["nodePoolID"] = "np-" + id
		status["ready"], _, _ = unstructured.NestedInt64(o.Object, "spec", "size")
	}
	status["conditions"] = ready(o, "True", "Available", "", now)
	return status
}

func statusOf(o *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	out := map[string]any{}
	maps.Copy(out, status)
	return out
}

func ready(o *unstructured.Unstructured, status, reason, message string, now time.Time) []any {
	return []any{map[string]any{
		"type": "Ready", "status": status, "reason": reason, "message": message,
		"observedGeneration": o.GetGeneration(), "lastTransitionTime": now.UTC().Format(time.RFC3339),
	}}
}

func digest(texts ...string) uint32 {
	h := fnv.New32a()
	for _, text := range texts {
		_, _ = h.Write([]byte(text + "\x00")) // a hash takes everything
	}
	return h.Sum32()
}
