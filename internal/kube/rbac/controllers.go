package rbac

import "slices"

// Verbs that go together.
var (
	read    = []string{"get", "list", "watch"}
	change  = []string{"get", "list", "patch", "watch"}
	manage  = []string{"create", "delete", "get", "list", "patch", "watch"}
	replace = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
)

// base is what the controllers need in every cluster, whatever they serve in it.
var base = slices.Concat(
	Of("apiextensions.k8s.io", "customresourcedefinitions", manage...),
	Of("apiextensions.k8s.io", "customresourcedefinitions/status", "update"), // which versions are stored
	Of("apiregistration.k8s.io", "apiservices", "list", "watch"),             // which groups there are
	Of("", "namespaces", read...),                                            // whether one is there that objects are to be made in
	Of("events.k8s.io", "events", "create", "patch"),
	Of("admissionregistration.k8s.io", "validatingwebhookconfigurations", "list"), // which one names a webhook that doesn't answer
	Of("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list"),
	Of("rbac.authorization.k8s.io", "clusterroles", "list", "watch"), // so that what is granted or revoked is noticed
	Of("rbac.authorization.k8s.io", "clusterrolebindings", "list", "watch"),
	Of("rbac.authorization.k8s.io", "roles", "list", "watch"),
	Of("rbac.authorization.k8s.io", "rolebindings", "list", "watch"),
	Of("espalier.dev", "holds", read...),
	Of("espalier.dev", "holds/status", "update"),
	Of("apiextensions.crossplane.io", "usages", usages...),
	Of("apiextensions.crossplane.io", "usages/status", "update"),
	Of("protection.crossplane.io", "usages", usages...),
	Of("protection.crossplane.io", "usages/status", "update"),
	Of("protection.crossplane.io", "clusterusages", usages...),
	Of("protection.crossplane.io", "clusterusages/status", "update"),
)

// graphs and compositions are what the controllers need for the definitions of a dialect.
var (
	graphs = slices.Concat(
		Of("kro.run", "resourcegraphdefinitions", change...),
		Of("kro.run", "resourcegraphdefinitions/status", "update"),
		Of("kro.run", "resourcegraphdefinitions/finalizers", "update"), // to be the owner of revisions
		Of("kro.run", "resourcegroups", change...),
		Of("kro.run", "resourcegroups/status", "update"),
		Of("kro.run", "resourcegroups/finalizers", "update"),
		Of("internal.kro.run", "graphrevisions", manage...),
		Of("internal.kro.run", "graphrevisions/status", "update"),
	)
	compositions = slices.Concat(
		Of("apiextensions.crossplane.io", "compositeresourcedefinitions", change...),
		Of("apiextensions.crossplane.io", "compositeresourcedefinitions/status", "update"),
		Of("apiextensions.crossplane.io", "compositeresourcedefinitions/finalizers", "update"),
		Of("apiextensions.crossplane.io", "compositions", read...),
		Of("apiextensions.crossplane.io", "compositions/finalizers", "update"),
		Of("apiextensions.crossplane.io", "compositionrevisions", "create", "get", "list", "patch", "watch"),
		Of("apiextensions.crossplane.io", "compositionrevisions/status", "update"),
		Of("apiextensions.crossplane.io", "environmentconfigs", read...),
		Of("pkg.crossplane.io", "functions", read...),
		Of("pkg.crossplane.io", "functions/status", "update"),
		Of("pkg.crossplane.io", "functionrevisions", read...),
		Of("pkg.crossplane.io", "functionrevisions/status", "update"),
	)
)

var usages = []string{"delete", "get", "list", "patch", "watch"}

// Object is one object, by its namespace, if it has one, and its name.
type Object struct{ Namespace, Name string }

// Program says which parts of the controllers run, and by which names.
type Program struct {
	// Graphs and Compositions say which dialects are served.
	Graphs, Compositions bool
	// Lease is that of the leader; none where none is elected.
	Lease Object
	// Configuration is that by which the API server asks a webhook, and Webhook says that
	// there is one to ask. Without one the controllers take away what a run with one has
	// left.
	Configuration Object
	Webhook       bool
	// Foreign is the configuration that another engine may have left, and Replace says that it
	// is to be deleted.
	Foreign Object
	Replace bool
	// Secret has the webhook's certificate; none if that isn't in one.
	Secret Object
	// Certificates are with what functions are called, where that is in a Secret.
	Certificates Object
	// Managed are the kinds of the providers that run.
	Managed []Resource
}

// Resource is where a kind is served.
type Resource struct{ Group, Name string }

// Controllers are the rights that the controllers need themselves. What instances are
// looked after with comes on top.
func Controllers(p Program) []Need {
	const leases, hooks, secrets = "leases", "validatingwebhookconfigurations", "secrets"
	needs := slices.Clone(base)
	if p.Graphs {
		needs = append(needs, graphs...)
	}
	if p.Compositions {
		needs = append(needs, compositions...)
	}
	if p.Lease.Name != "" {
		needs = append(needs, p.Lease.needs("coordination.k8s.io", leases, "get", "update")...)
		here := Object{Namespace: p.Lease.Namespace}
		needs = append(needs, here.needs("coordination.k8s.io", leases, "create")...)
		needs = append(needs, here.needs("", "events", "create", "patch")...) // of who leads
	}
	needs = append(needs, p.Configuration.needs("admissionregistration.k8s.io", hooks, "delete", "get")...)
	if p.Webhook {
		needs = append(needs, p.Configuration.needs("admissionregistration.k8s.io", hooks, "patch")...)
		needs = append(needs, Of("admissionregistration.k8s.io", hooks, "create")...)
	}
	if p.Foreign.Name != "" {
		needs = append(needs, p.Foreign.needs("admissionregistration.k8s.io", hooks, "get")...)
		if p.Replace {
			needs = append(needs, p.Foreign.needs("admissionregistration.k8s.io", hooks, "delete")...)
		}
	}
	if p.Secret.Name != "" {
		needs = append(needs, p.Secret.needs("", secrets, "get", "patch", "update")...)
		needs = append(needs, Object{Namespace: p.Secret.Namespace}.needs("", secrets, "create")...)
	}
	if p.Certificates.Name != "" {
		needs = append(needs, p.Certificates.needs("", secrets, "list", "watch")...)
	}
	for _, r := range p.Managed {
		needs = append(needs, Of(r.Group, r.Name, "get", "list", "patch", "update", "watch")...)
		needs = append(needs, Of(r.Group, r.Name+"/status", "update")...)
		needs = append(needs, Of(r.Group, r.Name+"/finalizers", "update")...)
	}
	if len(p.Managed) > 0 {
		needs = append(needs, Of("espalier.dev", "bindings", replace...)...)
		needs = append(needs, Of("", secrets, manage...)...) // credentials, and connection details
	}
	return sorted(needs)
}

func (o Object) needs(group, resource string, verbs ...string) []Need {
	needs := Of(group, resource, verbs...)
	for i := range needs {
		needs[i].Namespace, needs[i].Name = o.Namespace, o.Name
	}
	return needs
}

// Impersonation is the verb of acting as somebody else.
const Impersonation = "impersonate"

// Impersonate is what the controllers need in order to act as a service account.
func Impersonate(namespace, name string) Need {
	return Need{Verb: Impersonation, Resource: "serviceaccounts", Namespace: namespace, Name: name}
}
