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

// Recreation says whether an object is deleted and created anew when the API server
// rejects an update of it that it would accept as a new object.
type Recreation struct {
	Allowed bool
	// DataLoss allows it for an object that may hold data as well.
	DataLoss bool
}

// dataless are the kinds whose objects hold nothing but what is written to them, so that
// one that is created anew is as good as the former. A kind that isn't listed may hold data:
// in itself, in what goes with it, or in an external resource that it stands for.
var dataless = map[schema.GroupKind]bool{
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

// MayHoldData says whether an object of a kind may hold data that is lost with it.
func MayHoldData(kind schema.GroupKind) bool { return !dataless[kind] }

// Recreates says whether the step's object is to be created anew because its update was
// rejected with this message. If it isn't, hint is what to do to have it so; empty where that
// wouldn't help.
//
// What the node says counts, and what the object's own annotation says.
func (s Step) Recreates(rejected string) (may bool, hint string) {
	if s.Current == nil || s.External {
		return false, ""
	}
	said := s.Recreate
	switch s.Current.GetAnnotations()[v1alpha1.RecreateAnnotation] {
	case v1alpha1.RecreateTrue:
		said.Allowed = true
	case v1alpha1.RecreateAllowDataLoss:
		said = Recreation{Allowed: true, DataLoss: true}
	}
	_, protected := inventory.Protection(s.Current) // Delete tells of that
	keeps := MayHoldData(s.Current.GroupVersionKind().GroupKind()) || s.Stays && !protected
	value := v1alpha1.RecreateTrue
	if keeps {
		value = v1alpha1.RecreateAllowDataLoss
	}
	switch {
	case said.Allowed && (said.DataLoss || !keeps):
		return true, ""
	case said.Allowed:
		return false, fmt.Sprintf("it is not recreated, since it may hold data, or is to be kept; annotate it %s=%s to have it deleted and created anew", v1alpha1.RecreateAnnotation, value)
	case !namesImmutability(rejected):
		return false, ""
	}
	return false, fmt.Sprintf("to have it deleted and created anew, annotate it %s=%s", v1alpha1.RecreateAnnotation, value)
}

// namesImmutability says whether a message of the API server looks as if it were about
// fields that can't be changed. Nothing is decided by it but whether a hint is given.
func namesImmutability(message string) bool {
	for _, phrase := range []string{"immutable", "may not change", "may not be changed", "cannot change", "cannot be changed", "updates to"} {
		if strings.Contains(strings.ToLower(message), phrase) {
			return true
		}
	}
	return false
}

// Recreating is the problem of a node whose object is deleted because its update was
// rejected with this message.
func Recreating(o *unstructured.Unstructured, rejected string) Problem {
	problem := BeingDeleted(o)
	problem.Message += ": " + rejected
	return problem
}

// Delete says which of the objects can be deleted now, whatever the order between them, and
// what keeps the others; nil for one that was asked to go and hasn't yet. Again is when to
// look again, if that is known.
func Delete(r Remaining) (ask []*unstructured.Unstructured, held map[*unstructured.Unstructured]*report.Blocker, again time.Duration) {
	held = map[*unstructured.Unstructured]*report.Blocker{}
	for _, o := range r.Children {
		c := leaver{Unstructured: o, at: inventory.PlaceOf(o)}
		c.uses = r.usesOf(&c)
		asks, by, later := r.look(c)
		if asks {
			ask = append(ask, o)
		} else {
			held[o] = by
		}
		if later > 0 && (again == 0 || later < again) {
			again = later
		}
	}
	return ask, held, again
}
