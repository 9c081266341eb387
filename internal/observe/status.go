package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// ClusterStatus is what is not ready in a cluster, by definition, the worst first. Its JSON is what `espalier status -o json`
// prints: fields may be added, and no field changes its meaning or disappears.
type ClusterStatus struct {
	// Definitions are those that are not served, or have instances that are not ready.
	Definitions []DefinitionStatus `json:"definitions"`
	// Total and Unready count all definitions, and those that are not served; the others count instances, and managed resources that no
	// instance composes.
	Total                   int `json:"total"`
	Unready                 int `json:"unready"`
	Instances               int `json:"instances"`
	UnreadyInstances        int `json:"unreadyInstances"`
	ManagedResources        int `json:"managedResources,omitempty"`
	UnreadyManagedResources int `json:"unreadyManagedResources,omitempty"`
}

// DefinitionStatus is a definition, the newest revision of a composition, or a kind of managed resources, with what is not ready of it.
type DefinitionStatus struct {
	// Object is the definition; nil for managed resources, for Graphs, and for instances of a kind whose definition is gone or was not read.
	Object *report.Object `json:"object,omitempty"`
	// Kind is the kind of these objects, without a definition. Managed is true for managed resources.
	Kind    string `json:"kind,omitempty"`
	Managed bool   `json:"managed,omitempty"`
	// Ready is false if it is not served; Cause says why then.
	Ready bool   `json:"ready"`
	Cause string `json:"cause,omitempty"`
	// Instances counts its objects, and Unready are those that are not ready or not gone.
	Instances int              `json:"instances"`
	Unready   []InstanceStatus `json:"unready,omitempty"`
}

// InstanceStatus is an instance or managed resource that is not ready, or not gone.
type InstanceStatus struct {
	Object report.Object `json:"object"`
	Cause  string        `json:"cause"`
	// Created is when it was created. NeedsAction is true if waiting does not help.
	Created     *time.Time `json:"created,omitempty"`
	Deleting    bool       `json:"deleting,omitempty"`
	NeedsAction bool       `json:"needsAction"`
}

// Status returns what is not ready of definitions, newest revisions of compositions, and the instances and managed resources of a
// namespace, or of all if it is empty, by their own statuses. The composite of a claim that is shown is left out, and so is a managed
// resource that any of the instances composes.
func Status(definitions, revisions, instances, managed []*unstructured.Unstructured, namespace string, now time.Time) ClusterStatus {
	exists := map[object.Key]bool{}
	for _, i := range instances {
		exists[object.KeyOf(i)] = true
	}
	isElsewhere := func(o *unstructured.Unstructured) bool { return namespace != "" && o.GetNamespace() != namespace }
	instances = slices.DeleteFunc(slices.Clone(instances), isElsewhere)
	managed = slices.DeleteFunc(slices.Clone(managed), func(m *unstructured.Unstructured) bool {
		instance, _, isComposed := inventory.InstanceOf(m)
		return isElsewhere(m) || isComposed && exists[instance]
	})
	listed := map[object.Key]bool{}
	for _, i := range instances {
		listed[object.KeyOf(i)] = true
	}
	s := ClusterStatus{Definitions: []DefinitionStatus{}, Total: len(definitions), Instances: len(instances), ManagedResources: len(managed)}
	all := make([]DefinitionStatus, 0, len(definitions)+len(revisions))
	for _, d := range definitions {
		all = append(all, definitionStatus(d, now))
		if !all[len(all)-1].Ready {
			s.Unready++
		}
	}
	for _, r := range revisions {
		all = append(all, definitionStatus(r, now))
	}
	of := map[schema.GroupKind]int{}
	for n, i := range slices.Concat(instances, managed) {
		isManaged := n >= len(instances)
		gk := i.GroupVersionKind().GroupKind()
		at, known := of[gk]
		if !known {
			at = slices.IndexFunc(definitions, func(d *unstructured.Unstructured) bool { return Defines(d, gk.String()) })
			if at < 0 {
				at = len(all)
				all = append(all, DefinitionStatus{Kind: gk.String(), Managed: isManaged, Ready: true})
			}
			of[gk] = at
		}
		all[at].Instances++
		if parent, _, isClaimed := inventory.ClaimedBy(i); isClaimed && listed[parent] {
			continue
		}
		w := ClusterState{Root: i}
		if at < len(definitions) && IsUnreconciled(i) {
			w.ServedBy = map[object.Key]*unstructured.Unstructured{object.KeyOf(i): definitions[at]}
		}
		if one, isUnready := instanceStatus(w, now); isUnready {
			all[at].Unready = append(all[at].Unready, one)
			if isManaged {
				s.UnreadyManagedResources++
			} else {
				s.UnreadyInstances++
			}
		}
	}
	for _, d := range all {
		if !d.Ready || len(d.Unready) > 0 {
			slices.SortStableFunc(d.Unready, compareInstances)
			s.Definitions = append(s.Definitions, d)
		}
	}
	slices.SortStableFunc(s.Definitions, compareDefinitions)
	return s
}

// definitionStatus is the status of a definition, or of the revision of a composition, without instances.
func definitionStatus(d *unstructured.Unstructured, now time.Time) DefinitionStatus {
	n := describe(d, false)
	if problem, found := ServingProblem(d); found && n.Deleted == nil {
		n.Ready, n.Reason, n.Message = False, problem.Reason, problem.Message
	}
	o := n.object()
	if n.Ready != False && n.Ready != Unknown {
		return DefinitionStatus{Object: &o, Ready: true}
	}
	return DefinitionStatus{Object: &o, Cause: cause{node: n}.sentence(now)}
}

// instanceStatus is the status of the root of a state; false if it is ready.
func instanceStatus(w ClusterState, now time.Time) (out InstanceStatus, isUnready bool) {
	n := Build(w, now)
	x := explainer{now: now}
	if !x.isHindered(n) {
		return InstanceStatus{}, false
	}
	x.visit(n, nil)
	slices.SortStableFunc(x.found, compareCauses)
	first := x.found[0]
	isStalled := condition.Read(w.Root).IsTrue(condition.TypeStalled)
	return InstanceStatus{
		Object: n.object(), Cause: first.sentence(now), Created: n.Created, Deleting: n.Deleted != nil,
		NeedsAction: isStalled || first.rank() == 0,
	}, true
}

func compareInstances(a, b InstanceStatus) int {
	return cmp.Or(compareBool(b.NeedsAction, a.NeedsAction), timeAt(a.Created).Compare(timeAt(b.Created)), a.Object.Key().Compare(b.Object.Key()))
}

func compareDefinitions(a, b DefinitionStatus) int {
	needsAction := func(d DefinitionStatus) bool { return len(d.Unready) > 0 && d.Unready[0].NeedsAction }
	return cmp.Or(compareBool(a.Ready, b.Ready), compareBool(needsAction(b), needsAction(a)), cmp.Compare(len(b.Unready), len(a.Unready)),
		cmp.Compare(a.name(), b.name()))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func timeAt(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (d DefinitionStatus) name() string {
	switch {
	case d.Object != nil:
		return d.Object.String()
	case d.isOfGraphs():
		return "Graphs"
	case d.Managed:
		return "Managed resources of kind " + d.Kind
	}
	return "Kind " + d.Kind + ", without a definition"
}

func (d DefinitionStatus) isOfGraphs() bool { return d.Kind == graph.GraphKind.GroupKind().String() }

// IsReady reports whether nothing is unready.
func (s ClusterStatus) IsReady() bool { return len(s.Definitions) == 0 }

// JSON returns the status as a JSON document.
func (s ClusterStatus) JSON() []byte { return marshal(s) }

// maxStatusInstances bounds the instances of a definition that the text has.
const maxStatusInstances = 10

// Text is the status for people. With a width other than 0, texts are wrapped.
func (s ClusterStatus) Text(now time.Time, width int) string {
	t := explanationText{now: now, width: width}
	for _, d := range s.Definitions {
		t.definitionStatus(d)
	}
	if s.IsReady() {
		counts := []string{diag.Counted(s.Total, "definition", "definitions"), diag.Counted(s.Instances, "instance", "instances")}
		if s.ManagedResources > 0 {
			counts = append(counts, diag.Counted(s.ManagedResources, "managed resource", "managed resources"))
		}
		t.paragraph("", "everything is ready: "+strings.Join(counts, ", "))
		return t.b.String()
	}
	counts := []string{
		fmt.Sprintf("%d of %s not served", s.Unready, diag.Counted(s.Total, "definition is", "definitions are")),
		fmt.Sprintf("%d of %s not ready", s.UnreadyInstances, diag.Counted(s.Instances, "instance is", "instances are")),
	}
	if s.ManagedResources > 0 {
		counts = append(counts, fmt.Sprintf("%d of %s not ready", s.UnreadyManagedResources,
			diag.Counted(s.ManagedResources, "managed resource is", "managed resources are")))
	}
	t.paragraph("", strings.Join(counts, ", "))
	t.advice("", "  - ", []string{"for the way to a cause, and what to do about it: espalier why KIND NAME -n NAMESPACE"})
	return t.b.String()
}

func (t *explanationText) definitionStatus(d DefinitionStatus) {
	title := d.Cause
	if d.Ready {
		one, many := "instance is", "instances are"
		if d.Managed || d.isOfGraphs() {
			one, many = "is", "are"
		}
		title = fmt.Sprintf("%s: %d of %s not ready", d.name(), len(d.Unready), diag.Counted(d.Instances, one, many))
	}
	t.paragraph("", title)
	if d.Object != nil && !d.Ready {
		t.advice("", "  - ", []string{"see why: " + espalierCommand("why", *d.Object)})
	}
	if !d.Ready && d.Instances > 0 {
		t.paragraph("  ", fmt.Sprintf("%d of %s not ready", len(d.Unready), diag.Counted(d.Instances, "instance is", "instances are")))
	}
	for i, one := range d.Unready {
		if i == maxStatusInstances {
			t.paragraph("  ", fmt.Sprintf("and %d more: espalier status -o json lists all", len(d.Unready)-i))
			break
		}
		mark, cause := " ", one.Cause
		if one.NeedsAction {
			mark = "!"
		}
		if cause == d.Cause {
			cause = "waits for that"
		}
		age := ""
		if one.Created != nil {
			age = " (" + Age(t.now.Sub(*one.Created)) + ")"
		}
		cause = strings.TrimPrefix(cause, one.Object.String()+" is not ready: ")
		diag.WrapHanging(&t.b, "  "+mark+" ", strings.Fields(Printable(one.Object.String()+age+": "+strings.SplitN(cause, "\n", 2)[0])), t.width)
	}
	t.b.WriteString("\n")
}
