package plan

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Recreation reports whether an object is deleted and recreated when the API server rejects an update of it that it
// would accept as a new object.
type Recreation struct {
	Allowed bool
	// DataLoss allows it for an object that may hold data too.
	DataLoss bool
}

// Objects of these kinds hold only what is written to them, so a recreated object is equivalent to the former. A kind
// that isn't listed may hold data: in the object, in objects that are deleted with it, or in an external resource.
var kindsWithoutData = map[schema.GroupKind]bool{
	{Kind: "ConfigMap"}:      true,
	{Kind: "Endpoints"}:      true,
	{Kind: "LimitRange"}:     true,
	{Kind: "Pod"}:            true,
	{Kind: "ResourceQuota"}:  true,
	{Kind: "Service"}:        true,
	{Kind: "ServiceAccount"}: true,

	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: "apps", Kind: "DaemonSet"}:                                                true,
	{Group: "apps", Kind: "Deployment"}:                                               true,
	{Group: "apps", Kind: "ReplicaSet"}:                                               true,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:                           true,
	{Group: "batch", Kind: "CronJob"}:                                                 true,
	{Group: "batch", Kind: "Job"}:                                                     true,
	{Group: "coordination.k8s.io", Kind: "Lease"}:                                     true,
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                                true,
	{Group: "gateway.networking.k8s.io", Kind: "Gateway"}:                             true,
	{Group: "gateway.networking.k8s.io", Kind: "GRPCRoute"}:                           true,
	{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}:                           true,
	{Group: "networking.k8s.io", Kind: "Ingress"}:                                     true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                               true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                      true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                                    true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                  true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                                true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                         true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   true,
}

// MayHoldData reports whether an object of a kind may hold data that is lost with it.
func MayHoldData(kind schema.GroupKind) bool { return !kindsWithoutData[kind] }

// MayRecreate reports whether the step's object is to be recreated because its update was rejected with this message.
// If not, hint says how to allow it; it is empty if that wouldn't help.
//
// The node may allow it, and the annotation of the object.
func (s Step) MayRecreate(rejected string) (may bool, hint string) {
	if s.Current == nil || s.External {
		return false, ""
	}
	recreate := s.Recreate
	switch s.Current.GetAnnotations()[v1alpha1.RecreateAnnotation] {
	case v1alpha1.RecreateTrue:
		recreate.Allowed = true
	case v1alpha1.RecreateAllowDataLoss:
		recreate = Recreation{Allowed: true, DataLoss: true}
	}
	_, protected := inventory.Protection(s.Current) // Deletable reports that
	mayLoseData := MayHoldData(s.Current.GroupVersionKind().GroupKind()) || s.Preserved && !protected
	value := v1alpha1.RecreateTrue
	if mayLoseData {
		value = v1alpha1.RecreateAllowDataLoss
	}
	switch {
	case recreate.Allowed && (recreate.DataLoss || !mayLoseData):
		return true, ""
	case recreate.Allowed:
		return false, fmt.Sprintf("it is not recreated, because it may hold data or must be preserved; annotate it %s=%s to delete and recreate it",
			v1alpha1.RecreateAnnotation, value)
	case !mentionsImmutability(rejected):
		return false, ""
	}
	return false, fmt.Sprintf("to delete and recreate it, annotate it %s=%s", v1alpha1.RecreateAnnotation, value)
}

// It is a guess. It only decides whether a hint is given.
func mentionsImmutability(message string) bool {
	for _, phrase := range []string{"immutable", "may not change", "may not be changed", "cannot change", "cannot be changed", "updates to"} {
		if strings.Contains(strings.ToLower(message), phrase) {
			return true
		}
	}
	return false
}

// RecreatingProblem is the problem of a node whose object is deleted to be recreated: its update was rejected with this
// message.
func RecreatingProblem(o *unstructured.Unstructured, rejected string) Problem {
	problem := TerminatingProblem(o)
	problem.Message += ": " + rejected
	return problem
}

// Deletable returns the objects that can be deleted now, without an order between them, and the blockers of the rest;
// the blocker is nil for an object whose deletion was accepted and isn't observed yet. RetryAfter is after how long to
// call it again; 0 for on the next event.
func Deletable(r Remaining) (deletable []*unstructured.Unstructured, blocked map[*unstructured.Unstructured]*report.Blocker, retryAfter time.Duration) {
	blocked = map[*unstructured.Unstructured]*report.Blocker{}
	for _, o := range r.Children {
		c := target{Unstructured: o, place: inventory.PlaceOf(o)}
		c.usages = r.blockingUsages(&c)
		request, blocker, after := r.decideDeletion(c)
		if request {
			deletable = append(deletable, o)
		} else {
			blocked[o] = blocker
		}
		if after > 0 && (retryAfter == 0 || after < retryAfter) {
			retryAfter = after
		}
	}
	return deletable, blocked, retryAfter
}
