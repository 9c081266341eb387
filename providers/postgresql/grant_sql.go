package postgresql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

// They are the keywords of statements for one object and for all objects of a schema, and the letter of the object type
// in acldefault.
var keywords = map[v1alpha1.ObjectType]struct{ one, all, letter string }{
	v1alpha1.OnDatabase:  {"DATABASE", "", "d"},
	v1alpha1.OnSchema:    {"SCHEMA", "", "n"},
	v1alpha1.OnTables:    {"TABLE", "ALL TABLES", "r"},
	v1alpha1.OnSequences: {"SEQUENCE", "ALL SEQUENCES", "s"},
	v1alpha1.OnFunctions: {"ROUTINE", "ALL ROUTINES", "f"},
}

type grantState struct {
	// Privileges maps, by the quoted name of each object of the target, the privileges of the role, and whether it has
	// the grant option.
	Privileges map[string]map[string]bool
	// ByOthers has the privileges that another role than the owner of the object has granted, by that role and the
	// object. The server revokes them only as that role.
	ByOthers map[string]map[string]map[string]bool
	// Owners has the owner of each object in a schema. OwnRoles has the roles that the namespace manages, and the Grant
	// only concerns their objects; nil if it concerns all.
	Owners   map[string]string
	OwnRoles map[string]bool
	// All are the privileges of the object type on this server.
	All []string
	// Member reports whether the role is a member of the group, Admin the admin option.
	Member, Admin bool
}

// A membership counts as well.
func (s grantState) isGranted() bool {
	for _, has := range s.Privileges {
		if len(has) > 0 {
			return true
		}
	}
	return s.Member
}

// They are sorted.
func (s grantState) wanted(p v1alpha1.GrantParameters) []string {
	var out []string
	for _, privilege := range p.Privileges {
		if privilege == "ALL" {
			out = append(out, s.All...)
		} else {
			out = append(out, string(privilege))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// It names a database or a schema even if it was not observed: the server's error then names it, and the statement
// succeeds once it exists.
func (t target) objectList(objects []string) string {
	switch {
	case t.on == v1alpha1.OnDatabase:
		objects = []string{ident(t.database)}
	case t.on == v1alpha1.OnSchema:
		objects = []string{ident(t.schema)}
	case t.coversSchema():
		return keywords[t.on].all + " IN SCHEMA " + ident(t.schema)
	}
	return t.namedObjects(objects)
}

// A statement is stored in a Binding before it is sent, and the API server limits the size of a Binding. If more than
// maxNamedObjects of a whole schema need a change, the statement is for all objects of the schema. Otherwise it names
// as many as fit into maxObjectListSize, and the next calls the rest: a function's name may stand for thousands of
// overloads.
const (
	maxNamedObjects   = 100
	maxObjectListSize = 100 << 10
)

// There is at least one.
func firstThatFit(objects []string) []string {
	size := 0
	for i, object := range objects {
		if size += len(object); size > maxObjectListSize && i > 0 {
			return objects[:i]
		}
	}
	return objects
}

// It covers as many objects as fit; a later call does the rest.
func (t target) grant(s grantState, p v1alpha1.GrantParameters) []string {
	option := valueOr(p.WithOption, false)
	if t.group != "" {
		return []string{"GRANT " + ident(t.group) + " TO " + ident(t.role) + textIf(option, " WITH ADMIN OPTION")}
	}
	if s.OwnRoles != nil {
		sql, _ := t.grantsByOwners(s, p)
		return sql
	}
	return []string{fmt.Sprintf("GRANT %s ON %s TO %s%s", strings.Join(s.wanted(p), ", "), t.objectList(s.objects()), ident(t.role),
		textIf(option, " WITH GRANT OPTION"))}
}

func textIf(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}

func (s grantState) objects() []string { return slices.Sorted(maps.Keys(s.Privileges)) }

// It covers as many objects as fit; a later call does the rest.
func (t target) revoke(s grantState) []string {
	if t.group != "" {
		return []string{"REVOKE " + ident(t.group) + " FROM " + ident(t.role)}
	}
	granted := slices.DeleteFunc(s.objects(), func(object string) bool { return len(s.Privileges[object]) == 0 })
	sql := []string{fmt.Sprintf("REVOKE ALL PRIVILEGES ON %s FROM %s", t.objectList(granted), ident(t.role))}
	for _, grantor := range slices.Sorted(maps.Keys(s.ByOthers)) {
		objects := slices.Sorted(maps.Keys(s.ByOthers[grantor]))
		sql = append(sql, actAs(grantor), fmt.Sprintf("REVOKE ALL PRIVILEGES ON %s FROM %s", t.namedObjects(objects), ident(t.role)))
	}
	return sql
}

// After this statement, the call acts as the role.
func actAs(role string) string { return "SET LOCAL ROLE " + ident(role) }

func (t target) namedObjects(objects []string) string {
	return keywords[t.on].one + " " + strings.Join(firstThatFit(objects), ", ")
}

func (t target) changes(s grantState, p v1alpha1.GrantParameters) (sql, diff []string) {
	if t.group != "" {
		return t.memberChanges(s, p)
	}
	wanted := s.wanted(p)
	revocations := func(has map[string]bool) []string { return t.revocations(has, wanted, p.WithOption) }
	if s.OwnRoles != nil {
		sql, diff = t.objectChanges(s.Privileges, revocations, t.manyObjects)
		granted, missing := t.grantsByOwners(s, p)
		sql, diff = append(sql, granted...), append(diff, missing...)
	} else {
		sql, diff = t.objectChanges(s.Privileges, func(has map[string]bool) []string {
			return append(t.grants(has, wanted, p.WithOption), revocations(has)...)
		}, t.manyObjects)
	}
	for _, grantor := range slices.Sorted(maps.Keys(s.ByOthers)) {
		revoked, changed := t.objectChanges(s.ByOthers[grantor], revocations, t.manyObjects)
		if len(revoked) > 0 {
			sql = append(append(sql, actAs(grantor)), revoked...)
		}
		for _, text := range changed {
			diff = append(diff, text+", granted by "+ident(grantor))
		}
	}
	return sql, diff
}

// manyObjects returns the objects of a statement that has no effect on those that need no change: if there
// are too many to name, all of the schema.
func (t target) manyObjects(objects []string) string {
	if t.coversSchema() && len(objects) > maxNamedObjects {
		return t.objectList(nil)
	}
	return t.namedObjects(objects)
}

// list names the objects. Objects with the same change are in one statement.
func (t target) objectChanges(privileges map[string]map[string]bool, statements func(map[string]bool) []string, list func([]string) string) (sql,
	diff []string) {
	objectsByStatement := map[string][]string{}
	for _, object := range slices.Sorted(maps.Keys(privileges)) {
		for _, statement := range statements(privileges[object]) {
			objectsByStatement[statement] = append(objectsByStatement[statement], object)
		}
	}
	for _, statement := range slices.Sorted(maps.Keys(objectsByStatement)) {
		sql = append(sql, strings.Replace(statement, "$OBJECTS", list(objectsByStatement[statement]), 1))
		diff = append(diff, fmt.Sprintf("%d of %d objects: %s", len(objectsByStatement[statement]), len(privileges),
			strings.Replace(statement, " ON $OBJECTS", "", 1)))
	}
	return sql, diff
}

func (t target) grants(has map[string]bool, wanted []string, option *bool) []string {
	var missing, addOption []string
	for _, privilege := range wanted {
		grantable, exists := has[privilege]
		switch {
		case !exists:
			missing = append(missing, privilege)
		case valueOr(option, false) && !grantable:
			addOption = append(addOption, privilege)
		}
	}
	out := t.statement(missing, "GRANT %s ON $OBJECTS TO %s"+textIf(valueOr(option, false), " WITH GRANT OPTION"))
	return append(out, t.statement(addOption, "GRANT %s ON $OBJECTS TO %s WITH GRANT OPTION")...)
}

func (t target) revocations(has map[string]bool, wanted []string, option *bool) []string {
	var extra, removeOption []string
	for _, privilege := range slices.Sorted(maps.Keys(has)) {
		switch {
		case !slices.Contains(wanted, privilege):
			extra = append(extra, privilege)
		case has[privilege] && !valueOr(option, true):
			removeOption = append(removeOption, privilege)
		}
	}
	return append(t.statement(removeOption, "REVOKE GRANT OPTION FOR %s ON $OBJECTS FROM %s"), t.statement(extra, "REVOKE %s ON $OBJECTS FROM %s")...)
}

func (t target) statement(privileges []string, format string) []string {
	if len(privileges) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, strings.Join(privileges, ", "), ident(t.role))}
}

func (t target) memberChanges(s grantState, p v1alpha1.GrantParameters) (sql, diff []string) {
	option := valueOr(p.WithOption, s.Admin)
	switch {
	case option == s.Admin:
		return nil, nil
	case option:
		sql = []string{"GRANT " + ident(t.group) + " TO " + ident(t.role) + " WITH ADMIN OPTION"}
	default:
		sql = []string{"REVOKE ADMIN OPTION FOR " + ident(t.group) + " FROM " + ident(t.role)}
	}
	return sql, []string{diffText("withOption", s.Admin, option)}
}
