package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

var (
	read    = []string{"get", "list", "watch"}
	change  = []string{"get", "list", "patch", "watch"}
	manage  = []string{"create", "delete", "get", "list", "patch", "watch"}
	replace = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
)

// base contains what the controllers need in every cluster, whatever they reconcile.
var base = slices.Concat(
	PermissionsFor("apiextensions.k8s.io", "customresourcedefinitions", manage...),
	PermissionsFor("apiextensions.k8s.io", "customresourcedefinitions/status", "update"), // sets storedVersions
	PermissionsFor("apiregistration.k8s.io", "apiservices", "list", "watch"),             // to learn which API groups exist
	PermissionsFor("", "namespaces", read...),                                            // to see whether a child's namespace exists
	PermissionsFor("events.k8s.io", "events", "create", "patch"),
	PermissionsFor("admissionregistration.k8s.io", "validatingwebhookconfigurations", "list"), // to name the configuration of a failing webhook
	PermissionsFor("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list"),
	PermissionsFor("rbac.authorization.k8s.io", "clusterroles", "list", "watch"), // to notice granted and revoked permissions
	PermissionsFor("rbac.authorization.k8s.io", "clusterrolebindings", "list", "watch"),
	PermissionsFor("rbac.authorization.k8s.io", "roles", "list", "watch"),
	PermissionsFor("rbac.authorization.k8s.io", "rolebindings", "list", "watch"),
	PermissionsFor("espalier.dev", "holds", read...),
	PermissionsFor("espalier.dev", "holds/status", "update"),
	PermissionsFor("espalier.dev", "refuseddeletions", "create", "delete", "get", "patch"),
	PermissionsFor("authorization.k8s.io", "subjectaccessreviews", "create"), // to replay a refused deletion only for a user who may still delete the object
	PermissionsFor("apiextensions.crossplane.io", "usages", usages...),
	PermissionsFor("apiextensions.crossplane.io", "usages/status", "update"),
	PermissionsFor("protection.crossplane.io", "usages", usages...),
	PermissionsFor("protection.crossplane.io", "usages/status", "update"),
	PermissionsFor("protection.crossplane.io", "clusterusages", usages...),
	PermissionsFor("protection.crossplane.io", "clusterusages/status", "update"),
)

// graphs and compositions are what the controllers need for the definitions of each dialect.
var (
	graphs = slices.Concat(
		PermissionsFor("kro.run", "resourcegraphdefinitions", change...),
		PermissionsFor("kro.run", "resourcegraphdefinitions/status", "update"),
		PermissionsFor("kro.run", "resourcegraphdefinitions/finalizers", "update"), // to own revisions
		PermissionsFor("kro.run", "resourcegroups", change...),
		PermissionsFor("kro.run", "resourcegroups/status", "update"),
		PermissionsFor("kro.run", "resourcegroups/finalizers", "update"),
		PermissionsFor("kro.run", "graphs", change...),
		PermissionsFor("kro.run", "graphs/status", "update"),
		PermissionsFor("internal.kro.run", "graphrevisions", manage...),
		PermissionsFor("internal.kro.run", "graphrevisions/status", "update"),
	)
	// graphRevisions are what the revisions of Graphs need.
	graphRevisions = PermissionsFor("apps", "controllerrevisions", "create", "delete", "get")
	compositions   = slices.Concat(
		PermissionsFor("apiextensions.crossplane.io", "compositeresourcedefinitions", change...),
		PermissionsFor("apiextensions.crossplane.io", "compositeresourcedefinitions/status", "update"),
		PermissionsFor("apiextensions.crossplane.io", "compositeresourcedefinitions/finalizers", "update"),
		PermissionsFor("apiextensions.crossplane.io", "compositions", read...),
		PermissionsFor("apiextensions.crossplane.io", "compositions/finalizers", "update"),
		PermissionsFor("apiextensions.crossplane.io", "compositionrevisions", "create", "get", "list", "patch", "watch"),
		PermissionsFor("apiextensions.crossplane.io", "compositionrevisions/status", "update"),
		PermissionsFor("apiextensions.crossplane.io", "environmentconfigs", read...),
		PermissionsFor("pkg.crossplane.io", "functions", read...),
		PermissionsFor("pkg.crossplane.io", "functions/status", "update"),
		PermissionsFor("pkg.crossplane.io", "functionrevisions", read...),
		PermissionsFor("pkg.crossplane.io", "functionrevisions/status", "update"),
	)
)

var usages = []string{"delete", "get", "list", "patch", "watch"}

// provider is what the controllers of a provider that is a program of its own need in every cluster.
var provider = slices.Concat(
	PermissionsFor("apiextensions.k8s.io", "customresourcedefinitions", "create", "get", "list", "patch", "watch"),
	PermissionsFor("apiextensions.k8s.io", "customresourcedefinitions/status", "update"),
	PermissionsFor("apiregistration.k8s.io", "apiservices", "list", "watch"),
	PermissionsFor("", "namespaces", read...),
	PermissionsFor("events.k8s.io", "events", "create", "patch"),
	PermissionsFor("rbac.authorization.k8s.io", "clusterroles", "list", "watch"),
	PermissionsFor("rbac.authorization.k8s.io", "clusterrolebindings", "list", "watch"),
	PermissionsFor("espalier.dev", "holds", read...),
	PermissionsFor("espalier.dev", "holds/status", "update"),
)

// catalogs is what a provider needs on top that installs kinds once they are activated, also by
// definitions.
var catalogs = slices.Concat(
	PermissionsFor("apiextensions.k8s.io", "customresourcedefinitions", "delete"),
	PermissionsFor("kro.run", "resourcegraphdefinitions", "list", "watch"),
	PermissionsFor("kro.run", "resourcegroups", "list", "watch"),
	PermissionsFor("apiextensions.crossplane.io", "compositions", "list", "watch"),
)

// metricsSecure is what authenticating users of metrics needs.
var metricsSecure = slices.Concat(
	PermissionsFor("authentication.k8s.io", "tokenreviews", "create"),
	PermissionsFor("authorization.k8s.io", "subjectaccessreviews", "create"),
)

// providerRoles is what writing the roles of providers needs.
var providerRoles = slices.Concat(
	PermissionsFor("rbac.authorization.k8s.io", "clusterroles", "create", "get", "patch"),
	PermissionsFor("rbac.authorization.k8s.io", "clusterrolebindings", "create", "get", "patch"),
)

// packagePermissions are what installing packages needs: their kinds, the kinds of their objects, and what runs them in a namespace.
func packagePermissions(namespace string) []Permission {
	const group = "pkg.crossplane.io"
	var out []Permission
	for _, kind := range []string{"configuration", "function", "provider"} {
		out = append(out, PermissionsFor(group, kind+"s", "create", "get", "list", "patch", "watch")...)
		out = append(out, PermissionsFor(group, kind+"revisions", manage...)...)
		for _, resource := range []string{kind + "s", kind + "revisions"} {
			out = append(out, PermissionsFor(group, resource+"/status", "update")...)
			out = append(out, PermissionsFor(group, resource+"/finalizers", "update")...)
		}
	}
	out = append(out, PermissionsFor(group, "locks", "create", "get", "list", "patch", "watch")...)
	out = append(out, PermissionsFor(group, "locks/status", "update")...)
	out = append(out, PermissionsFor(group, "imageconfigs", read...)...)
	out = append(out, PermissionsFor(group, "deploymentruntimeconfigs", read...)...)
	for _, resource := range []string{"managedresourcedefinitions", "managedresourceactivationpolicies"} {
		out = append(out, PermissionsFor("apiextensions.crossplane.io", resource+"/status", "update")...)
		out = append(out, PermissionsFor("apiextensions.crossplane.io", resource+"/finalizers", "update")...)
	}
	for _, resource := range []string{"compositeresourcedefinitions", "compositions", "managedresourcedefinitions", "managedresourceactivationpolicies"} {
		out = append(out, PermissionsFor("apiextensions.crossplane.io", resource, "create", "get", "list", "patch", "watch")...)
	}
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		out = append(out, PermissionsFor("admissionregistration.k8s.io", resource, "create", "get", "list", "patch", "watch")...)
	}
	for _, resource := range []string{"operations", "cronoperations", "watchoperations"} {
		out = append(out, PermissionsFor("ops.crossplane.io", resource, "create", "get", "list", "patch", "watch")...)
	}
	in := Object{Namespace: namespace}
	return slices.Concat(out,
		in.Permissions("", "secrets", "create", "get", "list", "patch", "update", "watch"),
		in.Permissions("", "services", "create", "get", "list", "patch", "watch"),
		in.Permissions("", "serviceaccounts", "create", "get", "list", "patch", "watch"),
		in.Permissions("apps", "deployments", manage...),
		in.Permissions("coordination.k8s.io", "leases", "get"), // whether Crossplane runs
	)
}

// operationPermissions are what running operations needs: their kinds. What they read and write is read and written as their service
// accounts.
func operationPermissions(namespace string) []Permission {
	const group = "ops.crossplane.io"
	out := PermissionsFor(group, "operations", "create", "delete")
	for _, resource := range []string{"operations", "cronoperations", "watchoperations"} {
		out = append(out, PermissionsFor(group, resource, change...)...)
		out = append(out, PermissionsFor(group, resource+"/status", "update")...)
		out = append(out, PermissionsFor(group, resource+"/finalizers", "update")...)
	}
	return append(out, Object{Namespace: namespace}.Permissions("coordination.k8s.io", "leases", "get")...) // whether Crossplane runs
}

// Object names one object. Namespace is empty for cluster-scoped objects.
type Object struct{ Namespace, Name string }

// ControllerOptions lists which parts of the controllers run, and names their objects.
type ControllerOptions struct {
	// Graphs and Compositions enable the dialects.
	Graphs, Compositions bool
	// GraphKind reports that the kind Graph is served.
	GraphKind bool
	// Lease is the leader election lease; empty without leader election.
	Lease Object
	// Sharded reports that several installations share the cluster, each with a Lease of its own in that namespace.
	Sharded bool
	// SigningKey is the Secret with the key that children and inventories are signed with.
	SigningKey Object
	// Configuration is the ValidatingWebhookConfiguration of our webhook, and Webhook reports that the webhook runs. If
	// it does not, the controllers delete the configuration that an earlier run has left.
	Configuration Object
	Webhook       bool
	// Foreign is the webhook configuration that another engine may have left, and Replace requests its deletion.
	Foreign Object
	Replace bool
	// Secret holds the webhook's certificate; empty if no Secret does.
	Secret Object
	// MetricsSecure reports that users of the metrics are authenticated.
	MetricsSecure bool
	// Certificates is the Secret with the client certificate for calls of functions; empty
	// if no Secret holds it.
	Certificates Object
	// Packages is the namespace in which packages run; empty if none are installed.
	Packages Object
	// ProviderRules bound the roles of providers; none if none are written. The controllers need the same, because Kubernetes lets
	// no account grant what it does not have.
	ProviderRules []rbacv1.PolicyRule
	// Operations is the namespace with the lease of a Crossplane; empty if no operations are run.
	Operations Object
	// Managed are the kinds of the running providers.
	Managed []Resource
	// Catalogs: providers have kinds that are installed once they are activated.
	Catalogs bool
	// More are further permissions.
	More []Permission
}

// Resource is the resource that serves a kind.
type Resource struct{ Group, Name string }

// ControllerPermissions are the permissions of the controllers themselves. The permissions
// for the resources of instances come on top.
func ControllerPermissions(p ControllerOptions) []Permission {
	const hooks, secrets = "validatingwebhookconfigurations", "secrets"
	permissions := slices.Clone(base)
	if p.Graphs {
		permissions = append(permissions, graphs...)
	}
	if p.Graphs && p.GraphKind {
		permissions = append(permissions, graphRevisions...)
	}
	if p.Compositions {
		permissions = append(permissions, compositions...)
	}
	permissions = append(permissions, election(p)...)
	if p.SigningKey.Name != "" {
		permissions = append(permissions, p.SigningKey.Permissions("", secrets, "get")...)
		permissions = append(permissions, Object{Namespace: p.SigningKey.Namespace}.Permissions("", secrets, "create")...)
	}
	permissions = append(permissions, p.Configuration.Permissions("admissionregistration.k8s.io", hooks, "delete", "get")...)
	if p.Webhook {
		permissions = append(permissions, p.Configuration.Permissions("admissionregistration.k8s.io", hooks, "patch")...)
		permissions = append(permissions, PermissionsFor("admissionregistration.k8s.io", hooks, "create")...)
	}
	if p.Foreign.Name != "" {
		permissions = append(permissions, p.Foreign.Permissions("admissionregistration.k8s.io", hooks, "get")...)
		if p.Replace {
			permissions = append(permissions, p.Foreign.Permissions("admissionregistration.k8s.io", hooks, "delete")...)
		}
	}
	if p.Secret.Name != "" {
		permissions = append(permissions, p.Secret.Permissions("", secrets, "get", "patch", "update")...)
		permissions = append(permissions, Object{Namespace: p.Secret.Namespace}.Permissions("", secrets, "create")...)
	}
	if p.MetricsSecure {
		permissions = append(permissions, metricsSecure...)
	}
	if p.Certificates.Name != "" {
		permissions = append(permissions, p.Certificates.Permissions("", secrets, "list", "watch")...)
	}
	if p.Packages.Namespace != "" {
		permissions = append(permissions, packagePermissions(p.Packages.Namespace)...)
	}
	if len(p.ProviderRules) > 0 {
		permissions = append(append(permissions, providerRoles...), PermissionsIn(p.ProviderRules)...)
	}
	if p.Operations.Namespace != "" {
		permissions = append(permissions, operationPermissions(p.Operations.Namespace)...)
	}
	permissions = append(permissions, managed(p.Managed)...)
	return normalize(append(permissions, p.More...))
}

// ProviderPermissions are the permissions of a provider that is a program of its own: they do not
// include definitions, nor the resources of instances.
func ProviderPermissions(p ControllerOptions) []Permission {
	permissions := slices.Concat(provider, election(p), managed(p.Managed))
	if p.Catalogs {
		permissions = append(permissions, catalogs...)
	}
	if p.MetricsSecure {
		permissions = append(permissions, metricsSecure...)
	}
	return normalize(permissions)
}

// election is what electing a leader needs, and noticing other installations; nothing without a lease.
func election(p ControllerOptions) []Permission {
	if p.Lease.Name == "" {
		return nil
	}
	const group, leases = "coordination.k8s.io", "leases"
	namespaced, own := Object{Namespace: p.Lease.Namespace}, p.Lease
	if p.Sharded {
		own.Name = "" // it depends on the shard
	}
	return slices.Concat(
		own.Permissions(group, leases, "get", "update"),
		namespaced.Permissions(group, leases, "create", "list"),
		namespaced.Permissions("", "events", "create", "patch"), // leader election events
	)
}

func managed(kinds []Resource) (out []Permission) {
	for _, r := range kinds {
		out = append(out, PermissionsFor(r.Group, r.Name, "get", "list", "patch", "update", "watch")...)
		out = append(out, PermissionsFor(r.Group, r.Name+"/status", "update")...)
		out = append(out, PermissionsFor(r.Group, r.Name+"/finalizers", "update")...)
	}
	if len(kinds) > 0 {
		out = append(out, PermissionsFor("espalier.dev", "bindings", replace...)...)
		out = append(out, PermissionsFor("", "secrets", manage...)...) // credentials and connection details
	}
	return out
}

// Permissions are permissions on the object.
func (o Object) Permissions(group, resource string, verbs ...string) []Permission {
	all := PermissionsFor(group, resource, verbs...)
	for i := range all {
		all[i].Namespace, all[i].Name = o.Namespace, o.Name
	}
	return all
}

// VerbImpersonate is the verb that permits impersonation.
const VerbImpersonate = "impersonate"

// DefaultServiceAccount is the service account that definitions in a namespace use by default.
const DefaultServiceAccount = "espalier"

// Impersonate are the permissions to impersonate a service account, and to see whether it
// exists.
func Impersonate(namespace, name string) []Permission {
	return Object{Namespace: namespace, Name: name}.Permissions("", "serviceaccounts", VerbImpersonate, "list", "watch")
}

// IsImpersonation reports whether it is the permission to impersonate a service account.
func (p Permission) IsImpersonation(namespace, name string) bool {
	return p.Verb == VerbImpersonate && p.Namespace == namespace && p.Name == name
}
