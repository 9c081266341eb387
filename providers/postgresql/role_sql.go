package postgresql

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

// wantedAttributes are those that are said, by their words.
func wantedAttributes(p v1alpha1.RoleParameters) map[string]bool {
	out := map[string]bool{}
	for word, value := range map[string]*bool{
		"LOGIN": p.Login, "SUPERUSER": p.Superuser, "CREATEDB": p.CreateDB, "CREATEROLE": p.CreateRole,
		"REPLICATION": p.Replication, "BYPASSRLS": p.BypassRLS, "INHERIT": p.Inherit,
	} {
		if value != nil {
			out[word] = *value
		}
	}
	return out
}

// createRole are the statements that make a role.
func createRole(name string, p v1alpha1.RoleParameters) []string {
	none := roleState{Name: name, Config: map[string]string{}}
	options := none.options(p, nil)
	sql := []string{strings.Join(append([]string{"CREATE ROLE " + ident(name)}, options...), " ")}
	sql = append(sql, none.memberships(p, nil)...)
	return append(sql, none.configuration(p, nil)...)
}

// changes are the statements that make a role what it is to be, and what is
// different.
func (s roleState) changes(p v1alpha1.RoleParameters) (sql, diff []string) {
	tell := func(what string, is, wanted any) { diff = append(diff, differs(what, is, wanted)) }
	if options := s.options(p, tell); len(options) > 0 {
		sql = append(sql, strings.Join(append([]string{"ALTER ROLE " + ident(s.Name)}, options...), " "))
	}
	sql = append(sql, s.memberships(p, tell)...)
	return append(sql, s.configuration(p, tell)...), diff
}

// teller is told of each difference; nil where nobody wants to know.
type teller func(what string, is, wanted any)

func (t teller) tell(what string, is, wanted any) {
	if t != nil {
		t(what, is, wanted)
	}
}

// options are the attributes that are to be others. Of a role that isn't there, Is
// is nil and all are.
func (s roleState) options(p v1alpha1.RoleParameters, t teller) []string {
	var out []string
	wanted := wantedAttributes(p)
	for _, a := range attributes {
		value, said := wanted[a.word]
		if !said || (s.Is != nil && s.Is[a.word] == value) {
			continue
		}
		t.tell(strings.ToLower(a.word), s.Is[a.word], value)
		if value {
			out = append(out, a.word)
		} else {
			out = append(out, "NO"+a.word)
		}
	}
	if p.ConnectionLimit != nil && (s.Is == nil || *p.ConnectionLimit != s.Limit) {
		t.tell("connectionLimit", s.Limit, *p.ConnectionLimit)
		out = append(out, "CONNECTION LIMIT "+strconv.Itoa(int(*p.ConnectionLimit)))
	}
	if p.ValidUntil != nil && (s.Until == nil || !s.Until.Equal(p.ValidUntil.Time)) {
		at := p.ValidUntil.UTC().Format(time.RFC3339)
		t.tell("validUntil", s.Until, at)
		out = append(out, "VALID UNTIL "+literal(at))
	}
	return out
}

// memberships are exactly those that are listed, if a list is given.
func (s roleState) memberships(p v1alpha1.RoleParameters, t teller) []string {
	if p.MemberOf == nil {
		return nil
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(p.MemberOf)))
	var out []string
	for _, group := range wanted {
		if !slices.Contains(s.Member, group) {
			out = append(out, fmt.Sprintf("GRANT %s TO %s", ident(group), ident(s.Name)))
		}
	}
	for _, group := range s.Member {
		if !slices.Contains(wanted, group) {
			out = append(out, fmt.Sprintf("REVOKE %s FROM %s", ident(group), ident(s.Name)))
		}
	}
	if len(out) > 0 {
		t.tell("memberOf", s.Member, wanted)
	}
	return out
}

// configuration are exactly the parameters that are said, if any are.
func (s roleState) configuration(p v1alpha1.RoleParameters, t teller) []string {
	if p.Configuration == nil {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.Configuration)) {
		is, there := s.Config[strings.ToLower(name)]
		if value := p.Configuration[name]; !there || !sameSetting(name, is, value) {
			t.tell("configuration."+name, is, value)
			out = append(out, fmt.Sprintf("ALTER ROLE %s SET %s TO %s", ident(s.Name), parameter(name), setting(name, value)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Config)) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(p.Configuration)), func(said string) bool { return strings.EqualFold(said, name) }) {
			t.tell("configuration."+name, s.Config[name], "unset")
			out = append(out, fmt.Sprintf("ALTER ROLE %s RESET %s", ident(s.Name), parameter(name)))
		}
	}
	return out
}

// parameterName is what parameters are called; one of an extension has a dot.
var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// checkRole says which name, or which text, can't be one.
func checkRole(p v1alpha1.RoleParameters) error {
	for _, group := range p.MemberOf {
		if err := checkName("memberOf", group); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Configuration)) {
		if !parameterName.MatchString(name) || len(name) > longestName {
			return fmt.Errorf("configuration: %q is no parameter's name", name)
		}
		if err := checkText("configuration."+name, p.Configuration[name]); err != nil {
			return err
		}
	}
	return checkOptional("database", p.Database)
}

func parameter(name string) string { return ident(strings.Split(strings.ToLower(name), ".")...) }

// listed are the parameters whose values are lists of names: one text with commas
// would be a single odd name for them.
var listed = []string{
	"search_path", "temp_tablespaces", "session_preload_libraries", "shared_preload_libraries", "local_preload_libraries", "unix_socket_directories",
}

// setting is a parameter's value in a statement.
func setting(name, value string) string {
	if !slices.Contains(listed, strings.ToLower(name)) {
		return literal(value)
	}
	items := listItems(value)
	if len(items) == 0 {
		return literal("")
	}
	for i, item := range items {
		items[i] = literal(item)
	}
	return strings.Join(items, ", ")
}

// quotedItem is a name in quotes, with the comma after it.
var quotedItem = regexp.MustCompile(`^"((?:[^"]|"")*)"\s*(?:,\s*|$)`)

// listItems are the names in a list, without quotes. In quotes a comma is a part of a
// name.
func listItems(value string) []string {
	var out []string
	for rest := strings.TrimSpace(value); rest != ""; {
		var item string
		if m := quotedItem.FindStringSubmatch(rest); m != nil {
			item, rest = strings.ReplaceAll(m[1], `""`, `"`), rest[len(m[0]):]
		} else {
			item, rest, _ = strings.Cut(rest, ",")
			item, rest = strings.TrimSpace(item), strings.TrimSpace(rest)
		}
		if item != "" {
			out = append(out, item)
		}
	}
	return out
}

func sameSetting(name, is, wanted string) bool {
	if slices.Contains(listed, strings.ToLower(name)) {
		return slices.Equal(listItems(is), listItems(wanted))
	}
	return is == wanted
}
