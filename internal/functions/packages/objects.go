package packages

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
)

// The kinds that say which functions there are.
var (
	FunctionKind = v1.GroupVersion.WithKind(v1.FunctionKind)
	RevisionKind = v1.GroupVersion.WithKind(v1.FunctionRevisionKind)
)

// function is what counts of a Function.
type function struct {
	uid, image string
	// development is where its author runs it; empty if nobody says so.
	development string
	// foreign says that somebody else looks after it.
	foreign bool
}

// revision is what counts of a FunctionRevision.
type revision struct {
	name, of, uid string
	image         string
	active        bool
	number        int64
	endpoint      string
	capabilities  []string
	unwell        string
	// foreign says that somebody else looks after it.
	foreign bool
}

func readFunction(o *unstructured.Unstructured) *function {
	f := &function{uid: string(o.GetUID()), foreign: told(o) || revised(o)}
	f.image, _, _ = unstructured.NestedString(o.Object, "spec", "package")
	if o.GetAnnotations()[v1.RuntimeAnnotation] == v1.RuntimeDevelopment {
		if f.development = o.GetAnnotations()[v1.DevelopmentTargetAnnotation]; f.development == "" {
			f.development = v1.DefaultDevelopmentTarget
		}
	}
	return f
}

func readRevision(o *unstructured.Unstructured) revision {
	r := revision{name: o.GetName(), of: o.GetLabels()[v1.PackageLabel], uid: string(o.GetUID())}
	r.foreign = told(o) || metav1.GetControllerOfNoCopy(o) != nil
	state, _, _ := unstructured.NestedString(o.Object, "spec", "desiredState")
	r.active = state == string(v1.RevisionActive)
	r.image, _, _ = unstructured.NestedString(o.Object, "spec", "image")
	r.number, _, _ = unstructured.NestedInt64(o.Object, "spec", "revision")
	r.endpoint, _, _ = unstructured.NestedString(o.Object, "status", "endpoint")
	r.capabilities, _, _ = unstructured.NestedStringSlice(o.Object, "status", "capabilities")
	r.unwell = unwell(condition.Read(o))
	return r
}

// unwell is what others say is wrong with a revision. We know of its endpoint alone, and
// what we say of it is no news.
func unwell(conditions condition.Set) string {
	for _, kind := range []string{v1.TypeRuntimeHealthy, v1.TypeRevisionHealthy, v1.TypeHealthy} {
		c, ok := conditions.Get(kind)
		if ok && c.Status == condition.False && !slices.Contains(ours, c.Reason) {
			return diag.Cut(kind+" is False: "+c.Reason+": "+c.Message, 500)
		}
	}
	return ""
}

// told says whether somebody else tells how an object fares.
func told(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(condition.Read(o), func(c v1alpha1.Condition) bool { return !isOurs(c) })
}

// revised says whether a package manager has made a revision of a Function: it notes which
// is the newest.
func revised(o *unstructured.Unstructured) bool {
	current, _, _ := unstructured.NestedString(o.Object, "status", "currentRevision")
	return current != ""
}
