// Package doctor decides from the state of an installation what is wrong with it, and what to do about each problem: versions,
// permissions, CustomResourceDefinitions, webhooks, certificates, definitions that are not served, changes that nobody has reconciled,
// deletions that do not end, objects without an owner, and fields that another manager keeps changing.
//
// Begin with Examine, from a State that a caller has read.
//
// Pure: it decides from values alone.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// State is what was read of an installation.
type State struct {
	Now time.Time
	// Program is the version of this program, and Server that of Kubernetes.
	Program, Server string
	// Controllers are the Deployments of the controllers; there are none if they run elsewhere.
	Controllers []Controller
	// NoNodes says that the cluster has no nodes, as that of espalier up: nothing runs pods.
	NoNodes bool
	// Leases are the leases of controllers.
	Leases []Lease
	// Holds suspend the controllers.
	Holds []Hold
	// Providers are the Deployments of the chart's providers, and ProviderLeases their leases; there are none if no provider runs by
	// itself.
	Providers      []Controller
	ProviderLeases []Lease
	// Rights are the permissions of service accounts of the controllers.
	Rights []Rights
	// Installs are the steps by which the program's own kinds would be installed.
	Installs []install.Step
	CRDs     []*apiextensionsv1.CustomResourceDefinition
	Webhooks []Webhook
	// Definitions are those of all dialects. Instances are the objects of the kinds that they serve, and Children the objects that
	// say that they are part of an instance.
	Definitions, Instances []*unstructured.Unstructured
	Children               []Child
	// Revisions are CompositionRevisions.
	Revisions []*unstructured.Unstructured
	// InstanceKinds are the kinds of which all instances were read.
	InstanceKinds []schema.GroupKind
	// Unread is what could not be read.
	Unread []Unread
	// StuckAfter is how long a deletion may take before it is a problem.
	StuckAfter time.Duration
}

// Controller is a Deployment of controllers, or of a provider.
type Controller struct {
	Namespace, Name, Version string
	Wanted, Ready            int32
}

// Lease is the lease of controllers: one of them works as long as it renews it.
type Lease struct {
	Namespace, Name, Holder string
	Renewed                 time.Time
	Duration                time.Duration
}

// Hold is an object that suspends the controllers, and why it was created.
type Hold struct {
	Name, Reason string
}

// Rights are the permissions that a service account lacks.
type Rights struct {
	Namespace, Name string
	Missing         []rbac.Permission
}

// Webhook is a webhook that the API server calls for this program.
type Webhook struct {
	// Object is the configuration or the CustomResourceDefinition that names it.
	Object Object
	// Required says that requests fail if it does not answer.
	Required bool
	// CABundle are the certificates by which the API server trusts it, in PEM.
	CABundle []byte
	// Service is its service, as NAMESPACE/NAME; empty if it is called by a URL. Ready counts the ready addresses; it is negative if
	// they could not be read.
	Service string
	Ready   int
	// Foreign says that Crossplane installed it.
	Foreign bool
}

// Child is an object that says that it is part of an instance.
type Child struct {
	Object   *unstructured.Unstructured
	Instance Object
}

// Unread is something that could not be read.
type Unread struct {
	// What is a noun in the plural.
	What, Why string
	// Checks are those that need it.
	Checks []string
	// Forbidden says that the caller lacks the permission.
	Forbidden bool
}

// Severity is how bad a finding is.
type Severity string

// Severities, the worst one first.
const (
	Problem Severity = "problem"
	Warning Severity = "warning"
	// Unknown says that something could not be checked.
	Unknown Severity = "unknown"
	OK      Severity = "ok"
)

func (s Severity) rank() int { return slices.Index([]Severity{Problem, Warning, Unknown, OK}, s) }

// Checks, in the order of a report.
var Checks = []string{"versions", "controllers", "providers", "rights", "crds", "webhooks", "certificates", "definitions", "reconciled", "deletions",
	"orphans", "contested", unreadCheck}

// Object names an object.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (o Object) String() string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}

func (o Object) groupKind() schema.GroupKind { return schema.GroupKind{Group: o.Group, Kind: o.Kind} }

func objectOf(o *unstructured.Unstructured) Object {
	gvk := o.GroupVersionKind()
	return Object{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Finding is the result of a check. Its JSON is what `espalier doctor -o json` prints: fields may be added, and no field changes its
// meaning or disappears.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`
	// Object is what the finding is about; empty if it is about the installation.
	Object  *Object `json:"object,omitempty"`
	Message string  `json:"message"`
	// Remedy is what to do, mostly a command.
	Remedy string `json:"remedy,omitempty"`
}

// Examine returns the findings, the worst first; a check that finds nothing has one that says so, or that it could not
// read everything.
func Examine(s State) []Finding {
	e := &examination{State: s}
	for _, check := range []func(*examination){
		(*examination).versions, (*examination).controllers, (*examination).providers, (*examination).rights, (*examination).crds,
		(*examination).webhooks, (*examination).certificates, (*examination).definitions, (*examination).reconciled,
		(*examination).deletions, (*examination).orphans, (*examination).contested, (*examination).unread,
	} {
		check(e)
	}
	slices.SortStableFunc(e.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(slices.Index(Checks, a.Check), slices.Index(Checks, b.Check)),
			cmp.Compare(nameOf(a.Object), nameOf(b.Object)), cmp.Compare(a.Message, b.Message))
	})
	return e.found
}

func nameOf(o *Object) string {
	if o == nil {
		return ""
	}
	return o.String()
}

// Worst returns the worst severity.
func Worst(all []Finding) Severity {
	worst := OK
	for _, f := range all {
		if f.Severity.rank() < worst.rank() {
			worst = f.Severity
		}
	}
	return worst
}

// examination collects findings.
type examination struct {
	State
	found []Finding
}

func (e *examination) add(severity Severity, check string, o *Object, remedy, format string, args ...any) {
	e.found = append(e.found, Finding{Severity: severity, Check: check, Object: o, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// fine adds that a check has found nothing, if so; without all that the check needs, that is unknown.
func (e *examination) fine(check, format string, args ...any) {
	switch {
	case slices.ContainsFunc(e.found, func(f Finding) bool { return f.Check == check }):
	case e.lacks(check):
		e.add(Unknown, check, nil, seeUnread, "not checked completely; see %q", unreadCheck)
	default:
		e.add(OK, check, nil, "", format, args...)
	}
}

// unreadCheck is the check that lists what could not be read, and seeUnread the remedy of checks that need it.
const (
	unreadCheck = "unread"
	seeUnread   = "do what the findings of the check unread say"
)

// lacks says whether something that a check needs could not be read.
func (e *examination) lacks(check string) bool {
	return slices.ContainsFunc(e.Unread, func(u Unread) bool { return slices.Contains(u.Checks, check) })
}
