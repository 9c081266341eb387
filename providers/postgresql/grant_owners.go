package postgresql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

// The user of a shared configuration may be a superuser, who can grant privileges on all objects: also on objects that
// an administrator or the script of an extension has made in a namespace's database, where its owner can grant none. So
// a Grant only concerns objects whose owner is a role that the namespace manages, unless the configuration allows
// ForeignRoles.

func (s grantState) isForeign(object string) bool {
	return s.OwnRoles != nil && !s.OwnRoles[s.Owners[object]]
}

// Missing privileges are granted as the owners of the objects: after the observation, the owner of a schema may give
// its name to another schema, with other objects. They name as many objects as fit; a later call does the rest.
func (t target) grantsByOwners(s grantState, p v1alpha1.GrantParameters) (sql, diff []string) {
	wanted := s.wanted(p)
	byOwner := map[string]map[string]map[string]bool{}
	for object, has := range s.Privileges {
		owner := s.Owners[object]
		if s.isForeign(object) {
			continue
		}
		if byOwner[owner] == nil {
			byOwner[owner] = map[string]map[string]bool{}
		}
		byOwner[owner][object] = has
	}
	size := 0
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		granted, missing := t.objectChanges(byOwner[owner], func(has map[string]bool) []string { return t.grants(has, wanted, p.WithOption) }, t.namedObjects)
		if len(granted) == 0 {
			continue
		}
		if size += len(strings.Join(granted, "")); size > maxObjectListSize && len(sql) > 0 {
			break
		}
		sql = append(append(sql, actAs(owner)), granted...)
		for _, text := range missing {
			diff = append(diff, text+", as "+ident(owner))
		}
	}
	return sql, diff
}

// They are the needs for the objects that the Grant names: for each owner, the needs of one object. What is granted
// already, or only revoked, needs nothing.
func (t target) foreignNeeds(s grantState, p v1alpha1.GrantParameters) []need {
	if t.coversSchema() {
		return nil
	}
	var out []need
	wanted, seen := s.wanted(p), map[string]bool{}
	for _, object := range s.objects() {
		owner := s.Owners[object]
		if !s.isForeign(object) || seen[owner] || len(t.grants(s.Privileges[object], wanted, p.WithOption)) == 0 {
			continue
		}
		seen[owner] = true
		n := roleNeed("spec.forProvider.objects", owner)
		n.What = foreignText(object, owner)
		out = append(out, n)
	}
	return out
}

// They are the needs to adopt what the role has on foreign objects: for each owner, the needs of one object. Other
// users have granted it, and the Grant would revoke it when it is changed or deleted.
func (t target) adoptionNeeds(s grantState) []need {
	field := "spec.forProvider.objects"
	if t.coversSchema() {
		field = "spec.forProvider.schema"
	}
	var out []need
	seen := map[string]bool{}
	for _, object := range s.objects() {
		owner := s.Owners[object]
		if !s.isForeign(object) || seen[owner] || len(s.Privileges[object]) == 0 {
			continue
		}
		seen[owner] = true
		n := roleNeed(field, owner)
		n.What = "roles other than the owner have granted privileges on objects: " + foreignText(object, owner)
		out = append(out, n)
	}
	return out
}

func foreignText(object, owner string) string {
	return fmt.Sprintf("%s belongs to the role %s, which no Role of the namespace manages", object, ident(owner))
}

// The schema has objects, and privileges are granted on none of them; it is empty for another target.
func (t target) onlyForeign(s grantState) string {
	objects := s.objects()
	if !t.coversSchema() || len(objects) == 0 || s.isGranted() || slices.ContainsFunc(objects, func(object string) bool { return !s.isForeign(object) }) {
		return ""
	}
	return fmt.Sprintf("the schema %s of database %s has no %s of the namespace's roles to grant privileges on: %s, and the configuration does not allow %s",
		ident(t.schema), ident(t.database), strings.ToLower(string(t.on)), foreignText(objects[0], s.Owners[objects[0]]), v1alpha1.AllowForeignRoles)
}

// Objects that are left out do not count.
func (s grantState) countObjects() int {
	n := 0
	for object, has := range s.Privileges {
		if !s.isForeign(object) || len(has) > 0 {
			n++
		}
	}
	return n
}
