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

// target is what a grant is about.
type target struct {
	role string
	// group is the role that role becomes a member of; the rest is empty then.
	group    string
	on       v1alpha1.ObjectType
	database string
	schema   string
	// objects are sorted; none are all that the schema has.
	objects []string
}

// targetOf reads what a grant is about, and refuses what makes no sense.
func targetOf(p v1alpha1.GrantParameters) (target, error) {
	t := target{
		role: said(p.Role, ""), group: said(p.MemberOf, ""), on: cmp.Or(p.ObjectType, v1alpha1.OnDatabase),
		database: said(p.Database, ""), schema: said(p.Schema, ""), objects: slices.Compact(slices.Sorted(slices.Values(p.Objects))),
	}
	if err := checkName("spec.forProvider.role", t.role); err != nil {
		return target{}, err
	}
	if t.group != "" {
		if p.ObjectType != "" || t.database != "" || t.schema != "" || len(p.Objects) > 0 || len(p.Privileges) > 0 {
			return target{}, errors.New("spec.forProvider.memberOf stands for itself: leave out objectType, database, schema, objects and privileges")
		}
		if t.role == everybody {
			return target{}, errors.New("spec.forProvider.role is public, which is everybody, and can't be a member")
		}
		return target{role: t.role, group: t.group}, checkName("spec.forProvider.memberOf", t.group)
	}
	return t, t.check(p.Privileges)
}

// everybody is what the server takes for all roles that there are and will be, in
// quotes as well; there is no role of that name.
const everybody = "public"

// privileges are the words for what can be granted. They are no names, and nothing
// quotes them.
var privileges = []v1alpha1.Privilege{
	"ALL", "CONNECT", "CREATE", "TEMPORARY", "USAGE", "SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "EXECUTE", "MAINTAIN",
}

func (t target) check(asked []v1alpha1.Privilege) error {
	if len(asked) == 0 {
		return errors.New("spec.forProvider.privileges is empty, and there is no memberOf")
	}
	for _, privilege := range asked {
		if !slices.Contains(privileges, privilege) {
			return fmt.Errorf("spec.forProvider.privileges: %q is no privilege", privilege)
		}
	}
	if _, known := words[t.on]; !known {
		return fmt.Errorf("spec.forProvider.objectType: nothing of the kind %q can be granted", t.on)
	}
	if err := checkName("spec.forProvider.database", t.database); err != nil {
		return err
	}
	inSchema := t.on == v1alpha1.OnTables || t.on == v1alpha1.OnSequences || t.on == v1alpha1.OnFunctions
	switch {
	case t.on == v1alpha1.OnDatabase && t.schema != "":
		return errors.New("spec.forProvider.schema is set, and what is granted is the database: set objectType to what of the schema is meant")
	case !inSchema && len(t.objects) > 0:
		return fmt.Errorf("spec.forProvider.objects are set, and what is granted is the %s", t.on)
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

// longestKey is how long a key may become before the objects in it are a digest.
const longestKey = 400

// place is the database of a grant, and its name: who, and on what. What may be done
// isn't in it: that can be changed, and for one role and one thing there is one
// grant.
func (t target) place() (database, name string) {
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
	if len(list) > longestKey {
		sum := sha256.Sum256([]byte(list))
		list = fmt.Sprintf("%d, sha256 %s", len(t.objects), hex.EncodeToString(sum[:16]))
	}
	return t.database, name + ": " + list
}
