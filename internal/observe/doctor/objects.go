package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// deletions finds objects whose deletion does not end.
func (e *examination) deletions() {
	known := map[Object]bool{}
	for _, all := range [][]*unstructured.Unstructured{e.Definitions, e.Instances} {
		for _, o := range all {
			known[objectOf(o)] = true
			e.deletion(o, "espalier blockers "+arguments(objectOf(o)))
		}
	}
	for _, c := range e.Children {
		if known[objectOf(c.Object)] {
			continue // an instance that is a part of another one
		}
		e.deletion(c.Object, "espalier why "+arguments(objectOf(c.Object)))
	}
	for _, c := range e.CRDs {
		if since, stuck := e.isStuck(timeOf(c.DeletionTimestamp), c.DeletionTimestamp != nil); stuck {
			o := &Object{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition", Name: c.Name}
			e.add(Problem, "deletions", o, fmt.Sprintf("kubectl get %s.%s -A: it waits for these objects", c.Spec.Names.Plural, c.Spec.Group),
				"it has been terminating since %s", since)
		}
	}
	e.fine("deletions", "none takes longer than %s", e.StuckAfter)
}

func (e *examination) deletion(o *unstructured.Unstructured, remedy string) {
	at := o.GetDeletionTimestamp()
	if at == nil {
		return
	}
	since, stuck := e.isStuck(at.Time, true)
	if !stuck {
		return
	}
	one, text := objectOf(o), "it has been terminating since "+since
	if why := plan.WhyTerminating(o); why != "" {
		text += ": " + why
	}
	e.add(Problem, "deletions", &one, remedy, "%s", text)
}

func (e *examination) isStuck(at time.Time, deleted bool) (since string, stuck bool) {
	return at.UTC().Format(time.RFC3339), deleted && e.Now.Sub(at) >= e.StuckAfter
}

// arguments name an object for kubectl and espalier. Its name is that of somebody else.
func arguments(o Object) string {
	if strings.HasPrefix(o.Name, "-") { // as a word of its own it would be an option
		return diag.ShellWord(kindArgument(o)+"/"+o.Name) + inNamespace(o.Namespace)
	}
	return kindArgument(o) + " " + diag.ShellWord(o.Name) + inNamespace(o.Namespace)
}

func kindArgument(o Object) string {
	return strings.TrimSuffix(strings.ToLower(o.Kind)+"."+o.Group, ".")
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}

// orphans finds kinds without a definition, and objects without the instance that they belong to.
func (e *examination) orphans() {
	for _, c := range e.CRDs {
		owner, owned := crd.Owner(c)
		if !owned || e.hasDefinition(owner) {
			continue
		}
		count := 0
		for _, i := range e.Instances {
			if i.GroupVersionKind().GroupKind() == crd.GroupKind(c) {
				count++
			}
		}
		o, definition := &Object{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition", Name: c.Name},
			strings.TrimPrefix(owner.Namespace+"/"+owner.Name, "/")
		if count == 0 {
			e.add(Warning, "orphans", o, "apply the definition again; or: kubectl delete crd "+c.Name,
				"its definition %s is gone; there are no objects of the kind", definition)
			continue
		}
		e.add(Warning, "orphans", o, "apply the definition again; or delete the objects of the kind and then: kubectl delete crd "+c.Name,
			"its definition %s is gone: %s not reconciled", definition, diag.Counted(count, "object is", "objects are"))
	}
	known := map[Object]bool{}
	for _, i := range e.Instances {
		known[objectOf(i)] = true
	}
	for _, c := range e.Children {
		if known[c.Instance] || !slices.Contains(e.InstanceKinds, c.Instance.groupKind()) {
			continue
		}
		o := objectOf(c.Object)
		e.add(Warning, "orphans", &o, "if nothing needs it: kubectl delete "+arguments(o), "it belongs to %s, which is gone", c.Instance)
	}
	e.fine("orphans", "every kind has its definition, and every object its instance")
}

func (e *examination) hasDefinition(d object.Definition) bool {
	return slices.ContainsFunc(e.Definitions, func(o *unstructured.Unstructured) bool {
		return o.GetName() == d.Name && o.GetNamespace() == d.Namespace && o.GroupVersionKind().Group == v1alpha1.GroupVersion.Group
	})
}

// contested finds fields that another manager keeps changing.
func (e *examination) contested() {
	for _, i := range e.Instances {
		problems, _, _ := unstructured.NestedSlice(i.Object, "status", report.ProblemsField)
		for _, p := range problems {
			one, _ := p.(map[string]any)
			reason, _ := one["reason"].(string)
			if reason != string(plan.DriftContested) && reason != string(plan.FieldConflict) {
				continue
			}
			o := objectOf(i)
			e.add(Problem, "contested", &o, "espalier why "+arguments(o)+"; stop the other writer, or set driftPolicy: Ignore for the resource",
				"resource %v: %v", one["node"], one["message"])
		}
	}
	for _, c := range e.Children {
		conditions, _, _ := unstructured.NestedSlice(c.Object.Object, "status", "conditions")
		for _, condition := range conditions {
			one, _ := condition.(map[string]any)
			if one["reason"] == resource.Contested {
				o := objectOf(c.Object)
				e.add(Problem, "contested", &o, "stop the other client of the external API, or move the field to initProvider", "%v", one["message"])
			}
		}
	}
	e.fine("contested", "no other manager changes fields of the controllers")
}

// unread tells what could not be read: one finding for what the caller may not read, and one for each other cause.
func (e *examination) unread() {
	var causes []string
	of := map[string][]Unread{}
	for _, u := range e.Unread {
		cause := u.Why
		if u.Forbidden {
			cause = ""
		}
		if _, known := of[cause]; !known {
			causes = append(causes, cause)
		}
		of[cause] = append(of[cause], u)
	}
	for _, cause := range causes {
		var what []string
		for _, u := range of[cause] {
			what = append(what, u.What)
		}
		remedy, why := "see whether the API server is healthy: kubectl get --raw '/readyz?verbose'", cause
		if cause == "" {
			remedy, why = "run espalier doctor as a user who may read them", of[cause][0].Why
		}
		e.add(Unknown, unreadCheck, nil, remedy, "%s could not be read and were not checked: %s", strings.Join(what, ", "), why)
	}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
