package packages

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
)

// The kinds of functions.
var (
	FunctionKind = v1.GroupVersion.WithKind(v1.FunctionKind)
	RevisionKind = v1.GroupVersion.WithKind(v1.FunctionRevisionKind)
)

// function contains the fields of a Function that routes depend on.
type function struct {
	uid, image string
	pull       corev1.PullPolicy
	// endpoint is the address in the annotation of those who run the function; empty if there is none.
	endpoint string
	// development is the address of the development runtime; empty if it has none.
	development string
	// managedElsewhere: a package manager manages the Function.
	managedElsewhere bool
}

// revision contains the fields of a FunctionRevision that routes depend on.
type revision struct {
	name, function, uid string
	image               string
	active              bool
	number              int64
	endpoint            string
	capabilities        []string
	problem             string
	// managedElsewhere says that another writer sets its conditions, and controlled that a controller owns it: a
	// package manager, which sets the Function's conditions too.
	managedElsewhere, controlled bool
}

func readFunction(o *unstructured.Unstructured) *function {
	f := &function{uid: string(o.GetUID()), managedElsewhere: hasForeignCondition(o) || hasCurrentRevision(o)}
	f.image, _, _ = unstructured.NestedString(o.Object, "spec", "package")
	pull, _, _ := unstructured.NestedString(o.Object, "spec", "packagePullPolicy")
	f.pull = cmp.Or(corev1.PullPolicy(pull), corev1.PullIfNotPresent)
	f.endpoint = o.GetAnnotations()[v1.EndpointAnnotation]
	if o.GetAnnotations()[v1.RuntimeAnnotation] == v1.RuntimeDevelopment {
		if f.development = o.GetAnnotations()[v1.DevelopmentTargetAnnotation]; f.development == "" {
			f.development = v1.DefaultDevelopmentTarget
		}
	}
	return f
}

func readRevision(o *unstructured.Unstructured) revision {
	r := revision{name: o.GetName(), function: o.GetLabels()[v1.PackageLabel], uid: string(o.GetUID())}
	r.controlled = metav1.GetControllerOfNoCopy(o) != nil
	r.managedElsewhere = hasForeignCondition(o) || r.controlled
	state, _, _ := unstructured.NestedString(o.Object, "spec", "desiredState")
	r.active = state == string(v1.RevisionActive)
	r.image, _, _ = unstructured.NestedString(o.Object, "spec", "image")
	r.number, _, _ = unstructured.NestedInt64(o.Object, "spec", "revision")
	r.endpoint, _, _ = unstructured.NestedString(o.Object, "status", "endpoint")
	r.capabilities, _, _ = unstructured.NestedStringSlice(o.Object, "status", "capabilities")
	r.problem = packageProblem(condition.Read(o))
	return r
}

// packageProblem is why a package manager set a revision unhealthy; "" if none did. Our own
// conditions are ignored: they only restate whether the revision has an endpoint.
func packageProblem(conditions condition.Set) string {
	for _, kind := range []string{v1.TypeRuntimeHealthy, v1.TypeRevisionHealthy, v1.TypeHealthy} {
		c, ok := conditions.Get(kind)
		if ok && c.Status == condition.False && !slices.Contains(ownReasons, c.Reason) {
			return diag.Truncate(kind+" is False: "+c.Reason+": "+c.Message, 500)
		}
	}
	return ""
}

func hasForeignCondition(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(condition.Read(o), func(c v1alpha1.Condition) bool { return !isOwnCondition(c) })
}

// hasCurrentRevision reports whether a package manager has created a revision of a Function: it records the newest in
// status.currentRevision.
func hasCurrentRevision(o *unstructured.Unstructured) bool {
	current, _, _ := unstructured.NestedString(o.Object, "status", "currentRevision")
	return current != ""
}
