package autoready

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
)

// Ready reports whether an observed object is ready.
func Ready(o *unstructured.Unstructured) bool {
	kind := o.GroupVersionKind().GroupKind()
	if check, ok := kindChecks[kind]; ok {
		return !health.Stale(o) && check(o)
	}
	if ready, ok := health.ReadyConditionOf(o); ok {
		return ready.Status == condition.True && !health.Stale(o) && !ready.Stale
	}
	// An object that its controller has not reconciled yet has no condition either, so only
	// kinds that never have one can be ready without one.
	return slices.Contains(builtInGroups, kind.Group) && health.Of(o).Ready
}

var builtInGroups = []string{
	"", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io",
	"scheduling.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "node.k8s.io", "admissionregistration.k8s.io",
	"apiextensions.k8s.io", "certificates.k8s.io", "flowcontrol.apiserver.k8s.io", "resource.k8s.io", "events.k8s.io",
}

// kindChecks are the checks of kinds with another readiness than kstatus computes.
var kindChecks = map[schema.GroupKind]func(*unstructured.Unstructured) bool{
	{Kind: "Pod"}:                   isPodReady,
	{Kind: "PersistentVolume"}:      isCurrent,
	{Kind: "ReplicationController"}: isCurrent,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: isCurrent,
	{Kind: "Namespace"}:                      func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() == nil },
	{Kind: "Service"}:                        isServiceReady,
	{Group: "apps", Kind: "Deployment"}:      isCurrent,
	{Group: "apps", Kind: "StatefulSet"}:     isCurrent,
	{Group: "apps", Kind: "DaemonSet"}:       isCurrent,
	{Group: "apps", Kind: "ReplicaSet"}:      isCurrent,
	{Group: "batch", Kind: "Job"}:            isJobReady,
	{Group: "batch", Kind: "CronJob"}:        isCronJobReady,
	{Kind: "PersistentVolumeClaim"}:          isCurrent,
	{Group: "autoscaling", Kind: autoscaler}: isAutoscalerReady,
	{Group: "networking.k8s.io", Kind: "Ingress"}: func(o *unstructured.Unstructured) bool {
		return hasIngress(o)
	},
}

const autoscaler = "HorizontalPodAutoscaler"

func isCurrent(o *unstructured.Unstructured) bool { return health.Of(o).Ready }

// isPodReady is true for a Pod that has succeeded, and for a Pod with restartPolicy Always
// while it is Ready. A Pod that is meant to terminate isn't ready before it has succeeded.
func isPodReady(o *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	policy, _, _ := unstructured.NestedString(o.Object, "spec", "restartPolicy")
	switch phase {
	case "Succeeded":
		return true
	case "Running":
		return (policy == "Always" || policy == "") && condition.Read(o).IsTrue("Ready")
	}
	return false
}

// isServiceReady is true unless the Service waits for a load balancer.
func isServiceReady(o *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
	return kind != "LoadBalancer" || hasIngress(o)
}

func hasIngress(o *unstructured.Unstructured) bool {
	ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	return len(ingress) > 0
}

func isJobReady(o *unstructured.Unstructured) bool {
	said := condition.Read(o)
	return said.IsTrue("Complete") && !said.IsTrue("Failed") && !said.IsTrue("Suspended")
}

// isCronJobReady is true while the CronJob is suspended or a Job runs, and when the last Job
// succeeded.
func isCronJobReady(o *unstructured.Unstructured) bool {
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		return true
	}
	scheduled, ok := statusTime(o, "lastScheduleTime")
	if !ok {
		return false
	}
	if active, _, _ := unstructured.NestedSlice(o.Object, "status", "active"); len(active) > 0 {
		return true
	}
	succeeded, ok := statusTime(o, "lastSuccessfulTime")
	return ok && !succeeded.Before(scheduled)
}

func statusTime(o *unstructured.Unstructured, field string) (time.Time, bool) {
	text, _, _ := unstructured.NestedString(o.Object, "status", field)
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// isAutoscalerReady is true if the autoscaler is active or limited by its bounds.
func isAutoscalerReady(o *unstructured.Unstructured) bool {
	said := condition.Read(o)
	for _, bad := range []string{"FailedGetScale", "FailedUpdateScale", "FailedGetResourceMetric", "InvalidSelector"} {
		if said.IsTrue(bad) {
			return false
		}
	}
	return said.IsTrue("ScalingActive") || said.IsTrue("ScalingLimited")
}
