package autoready

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
)

// Ready says whether an observed object is ready.
func Ready(o *unstructured.Unstructured) bool {
	kind := o.GroupVersionKind().GroupKind()
	if of, ok := kinds[kind]; ok {
		return !health.Stale(o) && of(o)
	}
	if said, ok := health.Says(o); ok {
		return said.Status == condition.True && !health.Stale(o) && !said.Stale
	}
	// Some kind that nobody has looked at yet has no condition either, so only the kinds
	// that are known to need none can be ready without one.
	return slices.Contains(groups, kind.Group) && health.Of(o).Ready
}

// groups are those of Kubernetes' own kinds.
var groups = []string{
	"", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io",
	"scheduling.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "node.k8s.io", "admissionregistration.k8s.io",
	"apiextensions.k8s.io", "certificates.k8s.io", "flowcontrol.apiserver.k8s.io", "resource.k8s.io", "events.k8s.io",
}

// kinds are those whose status says it otherwise than kstatus reads it.
var kinds = map[schema.GroupKind]func(*unstructured.Unstructured) bool{
	{Kind: "Pod"}:                   pod,
	{Kind: "PersistentVolume"}:      current,
	{Kind: "ReplicationController"}: current,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: current,
	{Kind: "Namespace"}:                      func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() == nil },
	{Kind: "Service"}:                        service,
	{Group: "apps", Kind: "Deployment"}:      current,
	{Group: "apps", Kind: "StatefulSet"}:     current,
	{Group: "apps", Kind: "DaemonSet"}:       current,
	{Group: "apps", Kind: "ReplicaSet"}:      current,
	{Group: "batch", Kind: "Job"}:            job,
	{Group: "batch", Kind: "CronJob"}:        cronJob,
	{Kind: "PersistentVolumeClaim"}:          current,
	{Group: "autoscaling", Kind: autoscaler}: scaling,
	{Group: "networking.k8s.io", Kind: "Ingress"}: func(o *unstructured.Unstructured) bool {
		return assigned(o)
	},
}

const autoscaler = "HorizontalPodAutoscaler"

func current(o *unstructured.Unstructured) bool { return health.Of(o).Ready }

// pod is ready when it has succeeded, and one that is to run for ever while it is Ready. One
// that is to end isn't ready before it has.
func pod(o *unstructured.Unstructured) bool {
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

// service is ready, unless it waits for a load balancer.
func service(o *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
	return kind != "LoadBalancer" || assigned(o)
}

func assigned(o *unstructured.Unstructured) bool {
	ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	return len(ingress) > 0
}

// job is ready when it is complete.
func job(o *unstructured.Unstructured) bool {
	said := condition.Read(o)
	return said.IsTrue("Complete") && !said.IsTrue("Failed") && !said.IsTrue("Suspended")
}

// cronJob is ready while it is suspended or a job runs, and when the last one succeeded.
func cronJob(o *unstructured.Unstructured) bool {
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		return true
	}
	scheduled, ok := at(o, "lastScheduleTime")
	if !ok {
		return false
	}
	if active, _, _ := unstructured.NestedSlice(o.Object, "status", "active"); len(active) > 0 {
		return true
	}
	succeeded, ok := at(o, "lastSuccessfulTime")
	return ok && !succeeded.Before(scheduled)
}

func at(o *unstructured.Unstructured, field string) (time.Time, bool) {
	text, _, _ := unstructured.NestedString(o.Object, "status", field)
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// scaling is ready when it scales, or would if it weren't at a limit.
func scaling(o *unstructured.Unstructured) bool {
	said := condition.Read(o)
	for _, bad := range []string{"FailedGetScale", "FailedUpdateScale", "FailedGetResourceMetric", "InvalidSelector"} {
		if said.IsTrue(bad) {
			return false
		}
	}
	return said.IsTrue("ScalingActive") || said.IsTrue("ScalingLimited")
}
