package postgresql

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

type target struct {
	role string
	// group is the role that role becomes a member of; the rest is empty then.
	group    string
	on       v1alpha1.ObjectType
	database string
	schema   string
	// objects are sorted; an empty list stands for all of the schema.
	objects []string
}

func parseTarget(p v1alpha1.GrantParameters) (target, error) {
	t := target{
		role: valueOr(p.Role, ""), group: valueOr(p.MemberOf, ""), on: cmp.Or(p.ObjectType, v1alpha1.OnDatabase),
		database: valueOr(p.Database, ""), schema: valueOr(p.Schema, ""), objects: slices.Compact(slices.Sorted(slices.Values(p.Objects))),
	}
	if err := checkName("spec.forProvider.role", t.role); err != nil {
		return target{}, err
	}
	if t.group != "" {
		if p.ObjectType != "" || t.database != "" || t.schema != "" || len(p.Objects) > 0 || len(p.Privileges) > 0 {
			return target{}, errors.New("spec.forProvider.memberOf excludes objectType, database, schema, objects and privileges: remove these, or memberOf")
		}
		if t.role == publicRole {
			return target{}, errors.New("spec.forProvider.role is public, which stands for all roles and cannot be a member of a role")
		}
		return target{role: t.role, group: t.group}, checkName("spec.forProvider.memberOf", t.group)
	}
	return t, t.check(p.Privileges)
}

// publicRole stands for all existing and future roles, even if it is quoted. The server allows
// no role of that name.
const publicRole = "public"

// privileges are the valid keywords. They are checked, because keywords cannot be quoted in a statement.
var privileges = []v1alpha1.Privilege{
	"ALL", "CONNECT", "CREATE", "TEMPORARY", "USAGE", "SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "EXECUTE", "MAINTAIN",
}

func (t target) check(asked []v1alpha1.Privilege) error {
	if len(asked) == 0 {
		return errors.New("spec.forProvider.privileges is empty: set it, or memberOf")
	}
	for _, privilege := range asked {
		if !slices.Contains(privileges, privilege) {
			return fmt.Errorf("spec.forProvider.privileges: unknown privilege %q", privilege)
		}
	}
	if _, known := keywords[t.on]; !known {
		return fmt.Errorf("spec.forProvider.objectType: unknown type %q", t.on)
	}
	if err := checkName("spec.forProvider.database", t.database); err != nil {
		return err
	}
	switch {
	case t.on == v1alpha1.OnDatabase && t.schema != "":
		return errors.New("spec.forProvider.schema is set, but objectType is Database: set objectType to Schema, Tables, Sequences or Functions")
	case !t.isInSchema() && len(t.objects) > 0:
		return fmt.Errorf("spec.forProvider.objects are set, but objectType is %s: remove objects, or set objectType to Tables, Sequences or Functions", t.on)
	case t.on == v1alpha1.OnDatabase:
		return nil
	}
	for _, name := range t.objects {
		if err := checkName("spec.forProvider.objects", name); err != nil {
			return err
		}
	}
	return checkName("spec.forProvider.schema", t.schema)
}

func (t target) isInSchema() bool {
	return t.on == v1alpha1.OnTables || t.on == v1alpha1.OnSequences || t.on == v1alpha1.OnFunctions
}

func (t target) coversSchema() bool { return t.isInSchema() && len(t.objects) == 0 }

// maxKeyLength is the length of a list of objects above which a key has its digest.
const maxKeyLength = 400

// key returns the database of a grant, and a name of its role and objects. The privileges are not in it, because they
// can be changed, and one Grant owns all of them.
func (t target) key() (database, name string) {
	switch {
	case t.group != "":
		return "", ident(t.role) + " in " + ident(t.group)
	case t.on == v1alpha1.OnDatabase:
		return "", ident(t.role) + " on database " + ident(t.database)
	case t.on == v1alpha1.OnSchema:
		return t.database, ident(t.role) + " on schema " + ident(t.schema)
	}
	what := map[v1alpha1.ObjectType]string{v1alpha1.OnTables: "tables", v1alpha1.OnSequences: "sequences", v1alpha1.OnFunctions: "functions"}[t.on]
	name = fmt.Sprintf("%s on %s of %s", ident(t.role), what, ident(t.schema))
	if len(t.objects) == 0 {
		return t.database, name
	}
	list := idents(t.objects)
	if len(list) > maxKeyLength {
		sum := sha256.Sum256([]byte(list))
		list = fmt.Sprintf("%d, sha256 %s", len(t.objects), hex.EncodeToString(sum[:16]))
	}
	return t.database, name + ": " + list
}
