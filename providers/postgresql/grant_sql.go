package postgresql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

// words are how statements call what is granted, one and all of a schema, and the
// letter by which the server knows what can be granted of it.
var words = map[v1alpha1.ObjectType]struct{ one, all, letter string }{
	v1alpha1.OnDatabase:  {"DATABASE", "", "d"},
	v1alpha1.OnSchema:    {"SCHEMA", "", "n"},
	v1alpha1.OnTables:    {"TABLE", "ALL TABLES", "r"},
	v1alpha1.OnSequences: {"SEQUENCE", "ALL SEQUENCES", "s"},
	v1alpha1.OnFunctions: {"ROUTINE", "ALL ROUTINES", "f"},
}

// grantState is what a role may do, as the server has it.
type grantState struct {
	// Privileges are those that the role has on each thing that is meant, by how a
	// statement calls the thing, and whether it may grant them further.
	Privileges map[string]map[string]bool
	// All are the privileges that there are.
	All []string
	// Member says that it is a member, and Admin that it may make others members.
	Member, Admin bool
}

// granted says whether the role has anything of it.
func (s grantState) granted() bool {
	for _, has := range s.Privileges {
		if len(has) > 0 {
			return true
		}
	}
	return s.Member
}

// wanted are the privileges that the role is to have, sorted.
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

// things is what is meant, as a statement says it. A database and a schema are said
// by their own names, whether they were seen or not: what is asked for too early is
// refused in words about them, and is right when it is asked for again.
func (t target) things(objects []string) string {
	switch {
	case t.on == v1alpha1.OnDatabase:
		objects = []string{ident(t.database)}
	case t.on == v1alpha1.OnSchema:
		objects = []string{ident(t.schema)}
	case t.whole():
		return words[t.on].all + " IN SCHEMA " + ident(t.schema)
	}
	return words[t.on].one + " " + strings.Join(some(objects), ", ")
}

// whole says that all that the schema has is meant.
func (t target) whole() bool {
	return len(t.objects) == 0 && (t.on == v1alpha1.OnTables || t.on == v1alpha1.OnSequences || t.on == v1alpha1.OnFunctions)
}

// A statement is stored in an object before it is sent, and objects can't be large.
// Of more than mostNamed things of a whole schema it says that they are all; otherwise
// it names as many as fit into mostBytes, and the next call others: a function's name
// may stand for thousands of functions.
const (
	mostNamed = 100
	mostBytes = 100 << 10
)

// some are as many of the things as a statement can name, and one at least.
func some(things []string) []string {
	size := 0
	for i, thing := range things {
		if size += len(thing); size > mostBytes && i > 0 {
			return things[:i]
		}
	}
	return things
}

// grant is the statement that grants all.
func (t target) grant(s grantState, p v1alpha1.GrantParameters) []string {
	option := said(p.WithOption, false)
	if t.group != "" {
		return []string{"GRANT " + ident(t.group) + " TO " + ident(t.role) + with(option, " WITH ADMIN OPTION")}
	}
	return []string{fmt.Sprintf("GRANT %s ON %s TO %s%s", strings.Join(s.wanted(p), ", "), t.things(s.objects()), ident(t.role), with(option, " WITH GRANT OPTION"))}
}

func with(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

func (s grantState) objects() []string { return slices.Sorted(maps.Keys(s.Privileges)) }

// revoke is the statement that takes all away again.
func (t target) revoke(s grantState) []string {
	if t.group != "" {
		return []string{"REVOKE " + ident(t.group) + " FROM " + ident(t.role)}
	}
	having := slices.DeleteFunc(s.objects(), func(thing string) bool { return len(s.Privileges[thing]) == 0 })
	return []string{fmt.Sprintf("REVOKE ALL PRIVILEGES ON %s FROM %s", t.things(having), ident(t.role))}
}

// changes make what the role may do what it is to be.
func (t target) changes(s grantState, p v1alpha1.GrantParameters) (sql, diff []string) {
	if t.group != "" {
		return t.memberChanges(s, p)
	}
	wanted := s.wanted(p)
	// Things that need the same are in one statement.
	needs := map[string][]string{}
	for _, thing := range s.objects() {
		for _, need := range t.needs(s.Privileges[thing], wanted, p.WithOption) {
			needs[need] = append(needs[need], thing)
		}
	}
	for _, need := range slices.Sorted(maps.Keys(needs)) {
		things := words[t.on].one + " " + strings.Join(some(needs[need]), ", ")
		if t.whole() && len(needs[need]) > mostNamed {
			things = t.things(nil) // those that need nothing are as they are to be afterwards too
		}
		sql = append(sql, strings.Replace(need, "$THINGS", things, 1))
		diff = append(diff, fmt.Sprintf("%d of %d: %s", len(needs[need]), len(s.Privileges), strings.Replace(need, " ON $THINGS", "", 1)))
	}
	return sql, diff
}

// needs are the statements that one thing needs.
func (t target) needs(has map[string]bool, wanted []string, option *bool) []string {
	var missing, extra, bound, free []string
	for _, privilege := range wanted {
		grantable, there := has[privilege]
		switch {
		case !there:
			missing = append(missing, privilege)
		case option != nil && *option && !grantable:
			bound = append(bound, privilege)
		case option != nil && !*option && grantable:
			free = append(free, privilege)
		}
	}
	for _, privilege := range slices.Sorted(maps.Keys(has)) {
		if !slices.Contains(wanted, privilege) {
			extra = append(extra, privilege)
		}
	}
	var out []string
	add := func(list []string, format string, more ...any) {
		if len(list) > 0 {
			out = append(out, fmt.Sprintf(format, append([]any{strings.Join(list, ", "), ident(t.role)}, more...)...))
		}
	}
	add(missing, "GRANT %s ON $THINGS TO %s%s", with(said(option, false), " WITH GRANT OPTION"))
	add(bound, "GRANT %s ON $THINGS TO %s WITH GRANT OPTION")
	add(free, "REVOKE GRANT OPTION FOR %s ON $THINGS FROM %s")
	add(extra, "REVOKE %s ON $THINGS FROM %s")
	return out
}

func (t target) memberChanges(s grantState, p v1alpha1.GrantParameters) (sql, diff []string) {
	option := said(p.WithOption, s.Admin)
	switch {
	case option == s.Admin:
		return nil, nil
	case option:
		sql = []string{"GRANT " + ident(t.group) + " TO " + ident(t.role) + " WITH ADMIN OPTION"}
	default:
		sql = []string{"REVOKE ADMIN OPTION FOR " + ident(t.group) + " FROM " + ident(t.role)}
	}
	return sql, []string{differs("withOption", s.Admin, option)}
}
