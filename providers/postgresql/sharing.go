package postgresql

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// A ClusterProviderConfig has one user for the managed resources of several namespaces. What
// they may do with it is decided here, from values alone: session_sharing.go reads these.

// sharing is what a configuration allows the managed resources of one namespace.
type sharing struct {
	// Config describes the configuration; empty for a namespace's, which restricts nothing.
	Config    string
	Namespace string
	Allow     []v1alpha1.Allowance
	// Denied is why a managed resource that is being deleted would not be served otherwise: what it owns is
	// still deleted with it, and nothing is adopted.
	Denied string
}

func (s sharing) allows(a v1alpha1.Allowance) bool {
	return s.Config == "" || slices.Contains(s.Allow, v1alpha1.AllowEverything) || slices.Contains(s.Allow, a)
}

// checkNamespace returns an error unless the managed resources of a namespace may use the
// configuration.
func checkNamespace(config, namespace string, allowed *v1alpha1.AllowedNamespaces, namespaceLabels map[string]string) error {
	if allowed == nil || slices.Contains(allowed.Names, namespace) {
		return nil
	}
	if allowed.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
		if err != nil {
			return fmt.Errorf("%s: spec.allowedNamespaces.selector: %w", config, err)
		}
		if selector.Matches(labels.Set(namespaceLabels)) {
			return nil
		}
	}
	return &external.NotAllowedError{Message: fmt.Sprintf("%s: spec.allowedNamespaces has neither the name nor the labels of namespace %s. Refer to another configuration in spec.providerConfigRef, "+
		"or have an administrator allow the namespace", config, namespace)}
}

// need is something that a managed resource does, which has to be allowed unless the facts
// show that it concerns the namespace alone.
type need struct {
	// Field is the field that requires it, and What describes it.
	Field, What string
	Allowance   v1alpha1.Allowance

	// Role and Database are names: the need is met if the namespace manages them.
	Role, Database string
	// Template is a database: the need is also met if every user who may create databases
	// may copy it.
	Template string
	// Parameter is met if a user may set the parameter, Extension if the owner of a database
	// may create the extension; with Cascade, also the extensions that it requires.
	Parameter, Extension string
	Cascade              bool
}

type facts struct {
	// Roles and Databases are what the namespace manages.
	Roles, Databases map[string]bool
	// Templates are the databases that the server marks as templates.
	Templates map[string]bool
	// UserParameters are parameters that a user may set.
	UserParameters map[string]bool
	// Untrusted lists, for an extension, it and the extensions that it requires if only a superuser may create them.
	Untrusted map[string][]string
}

// The need concerns the namespace alone.
func (f facts) isMet(n need) bool {
	switch {
	case n.Role != "":
		return f.Roles[n.Role]
	case n.Template != "":
		return f.Templates[n.Template] || f.Databases[n.Template]
	case n.Database != "":
		return f.Databases[n.Database]
	case n.Parameter != "":
		return f.UserParameters[n.Parameter]
	case n.Extension != "" && n.Cascade:
		return len(f.Untrusted[n.Extension]) == 0
	case n.Extension != "":
		return !slices.Contains(f.Untrusted[n.Extension], n.Extension)
	}
	return false
}

// It is about the first need that is neither met nor allowed.
func (s sharing) check(needs []need, f facts) error {
	for _, n := range needs {
		if !s.allows(n.Allowance) && !f.isMet(n) {
			return &external.NotAllowedError{Message: s.denial(n)}
		}
	}
	return nil
}

func (s sharing) denial(n need) string {
	return fmt.Sprintf("%s: %s, and %s does not allow %s. Change %[1]s, or have an administrator add %[4]s to spec.allow of the configuration",
		n.Field, n.What, s.Config, n.Allowance)
}

func roleNeed(field, role string) need {
	return need{Field: field, What: fmt.Sprintf("no Role of the namespace manages the role %s", ident(role)), Allowance: v1alpha1.AllowForeignRoles, Role: role}
}

func databaseNeed(field, database string) need {
	return need{Field: field, What: fmt.Sprintf("no Database of the namespace manages the database %s", ident(database)),
		Allowance: v1alpha1.AllowForeignDatabases, Database: database}
}

// schemaNeeds are the needs to use a schema: objects in system schemas have effects beyond
// their database, or run in sessions of this program.
func schemaNeeds(field, schema string) []need {
	if schema != "information_schema" && !strings.HasPrefix(schema, "pg_") {
		return nil
	}
	return []need{{Field: field, What: fmt.Sprintf("%s is a schema of the system", ident(schema)), Allowance: v1alpha1.AllowSystemSchemas}}
}

func parameterNeed(name string) need {
	return need{
		Field: "spec.forProvider.configuration", What: fmt.Sprintf("the parameter %s is not known to be settable by every user", name),
		Allowance: v1alpha1.AllowSuperuserParameters, Parameter: strings.ToLower(name),
	}
}
