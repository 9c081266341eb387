package postgresql

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

// privilegedAttributes are the attributes of a role that a shared configuration has to allow.
var privilegedAttributes = []struct {
	field     string
	allowance v1alpha1.Allowance
	value     func(v1alpha1.RoleParameters) *bool
}{
	{"superuser", v1alpha1.AllowSuperuser, func(p v1alpha1.RoleParameters) *bool { return p.Superuser }},
	{"createRole", v1alpha1.AllowCreateRole, func(p v1alpha1.RoleParameters) *bool { return p.CreateRole }},
	{"createDB", v1alpha1.AllowCreateDB, func(p v1alpha1.RoleParameters) *bool { return p.CreateDB }},
	{"replication", v1alpha1.AllowReplication, func(p v1alpha1.RoleParameters) *bool { return p.Replication }},
	{"bypassRLS", v1alpha1.AllowBypassRLS, func(p v1alpha1.RoleParameters) *bool { return p.BypassRLS }},
}

func roleNeeds(p v1alpha1.RoleParameters) []need {
	var out []need
	for _, a := range privilegedAttributes {
		if valueOr(a.value(p), false) {
			out = append(out, need{Field: "spec.forProvider." + a.field, What: "the attribute is privileged", Allowance: a.allowance})
		}
	}
	for _, group := range p.MemberOf {
		out = append(out, roleNeed("spec.forProvider.memberOf", group))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Configuration)) {
		out = append(out, parameterNeed(name))
	}
	return append(out, newOwnerNeeds(p)...)
}

// newOwnerNeeds are the needs of a Role at its deletion. Functions that run with the
// permissions of their owner get other permissions with another owner.
func newOwnerNeeds(p v1alpha1.RoleParameters) []need {
	if p.ReassignOwnedTo == nil {
		return nil
	}
	return []need{roleNeed("spec.forProvider.reassignOwnedTo", *p.ReassignOwnedTo)}
}

func (s roleState) resetNeeds(p v1alpha1.RoleParameters) []need {
	if p.Configuration == nil {
		return nil
	}
	listed := map[string]bool{}
	for name := range p.Configuration {
		listed[strings.ToLower(name)] = true
	}
	var out []need
	for _, name := range slices.Sorted(maps.Keys(s.Config)) {
		if !listed[strings.ToLower(name)] {
			out = append(out, parameterNeed(name))
		}
	}
	return out
}

// Needs that forProvider alone does not have come from initProvider.
func creationNeeds(initial, params []need) []need {
	for i, n := range initial {
		if !slices.Contains(params, n) {
			initial[i].Field = strings.Replace(n.Field, "spec.forProvider.", "spec.initProvider.", 1)
		}
	}
	return initial
}

// The user of the configuration is the owner of a database without one.
func databaseNeeds(p v1alpha1.DatabaseParameters, user string) []need {
	var out []need
	if p.Owner != nil && *p.Owner != user {
		out = append(out, roleNeed("spec.forProvider.owner", *p.Owner))
	}
	if space := valueOr(p.Tablespace, defaultTablespace); space != defaultTablespace {
		out = append(out, need{Field: "spec.forProvider.tablespace", What: ident(space) + " is not the default tablespace", Allowance: v1alpha1.AllowTablespaces})
	}
	return out
}

const defaultTablespace = "pg_default"

func copyNeeds(p v1alpha1.DatabaseParameters) []need {
	if p.Template == nil {
		return nil
	}
	n := databaseNeed("spec.forProvider.template", *p.Template)
	n.What, n.Template = n.What+", and it is not a template", *p.Template
	return []need{n}
}

// Without a database, the managed resource is invalid.
func locationNeeds(database *string) []need {
	if database == nil {
		return nil
	}
	return []need{databaseNeed("spec.forProvider.database", *database)}
}

// These roles may own a schema beside the roles of the namespace: the user of the configuration, and the role that
// stands for the owner of the database.
func schemaOwners(user string) []string { return []string{user, "pg_database_owner"} }

func needsOfSchema(name string, p v1alpha1.SchemaParameters, user string) []need {
	out := append(locationNeeds(p.Database), schemaNeeds("the name", name)...)
	if p.Owner != nil && !slices.Contains(schemaOwners(user), *p.Owner) {
		out = append(out, roleNeed("spec.forProvider.owner", *p.Owner))
	}
	return out
}

// Its script runs as the user of the configuration, and its functions may run code or open files and connections on the
// server.
func extensionNeeds(name string, p v1alpha1.ExtensionParameters) []need {
	out := append(locationNeeds(p.Database), schemaNeeds("spec.forProvider.schema", valueOr(p.Schema, ""))...)
	what := fmt.Sprintf("the server does not trust the extension %s", ident(name))
	if valueOr(p.Cascade, false) {
		what += ", or one that it requires"
	}
	return append(out, need{
		Field: cmp.Or(textIf(p.Name != nil, "spec.forProvider.name"), "the name"), What: what,
		Allowance: v1alpha1.AllowUntrustedExtensions, Extension: name, Cascade: valueOr(p.Cascade, false),
	})
}

func grantNeeds(p v1alpha1.GrantParameters) []need {
	var out []need
	if p.Role != nil && *p.Role != publicRole {
		out = append(out, roleNeed("spec.forProvider.role", *p.Role))
	}
	if p.MemberOf != nil {
		return append(out, roleNeed("spec.forProvider.memberOf", *p.MemberOf))
	}
	out = append(out, locationNeeds(p.Database)...)
	return append(out, schemaNeeds("spec.forProvider.schema", valueOr(p.Schema, ""))...)
}
