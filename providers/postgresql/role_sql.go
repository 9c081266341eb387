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

// Attributes are keyed by their keywords.
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

func createRole(name string, p v1alpha1.RoleParameters) []string {
	none := roleState{Name: name, Config: map[string]string{}}
	options := none.options(p, nil)
	sql := []string{strings.Join(append([]string{"CREATE ROLE " + ident(name)}, options...), " ")}
	sql = append(sql, none.memberships(p, nil)...)
	return append(sql, none.configuration(p, nil)...)
}

func (s roleState) changes(p v1alpha1.RoleParameters) (sql, diff []string) {
	addDiff := func(what string, is, wanted any) { diff = append(diff, diffText(what, is, wanted)) }
	if options := s.options(p, addDiff); len(options) > 0 {
		sql = append(sql, strings.Join(append([]string{"ALTER ROLE " + ident(s.Name)}, options...), " "))
	}
	sql = append(sql, s.memberships(p, addDiff)...)
	return append(sql, s.configuration(p, addDiff)...), diff
}

// It may be nil.
type diffFunc func(what string, is, wanted any)

func (diff diffFunc) add(what string, is, wanted any) {
	if diff != nil {
		diff(what, is, wanted)
	}
}

// For a role that does not exist, Attributes is nil, and all differ.
func (s roleState) options(p v1alpha1.RoleParameters, diff diffFunc) []string {
	var out []string
	wanted := wantedAttributes(p)
	for _, a := range attributes {
		value, isSet := wanted[a.keyword]
		if !isSet || (s.Attributes != nil && s.Attributes[a.keyword] == value) {
			continue
		}
		diff.add(strings.ToLower(a.keyword), s.Attributes[a.keyword], value)
		if value {
			out = append(out, a.keyword)
		} else {
			out = append(out, "NO"+a.keyword)
		}
	}
	if p.ConnectionLimit != nil && (s.Attributes == nil || *p.ConnectionLimit != s.Limit) {
		diff.add("connectionLimit", s.Limit, *p.ConnectionLimit)
		out = append(out, "CONNECTION LIMIT "+strconv.Itoa(int(*p.ConnectionLimit)))
	}
	if p.ValidUntil != nil && (s.Until == nil || !s.Until.Equal(p.ValidUntil.Time)) {
		at := p.ValidUntil.UTC().Format(time.RFC3339)
		diff.add("validUntil", s.Until, at)
		out = append(out, "VALID UNTIL "+literal(at))
	}
	return out
}

// They become exactly the listed ones, if a list is set.
func (s roleState) memberships(p v1alpha1.RoleParameters, diff diffFunc) []string {
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
		diff.add("memberOf", s.Member, wanted)
	}
	return out
}

// The parameters become exactly the desired ones, if any are set.
func (s roleState) configuration(p v1alpha1.RoleParameters, diff diffFunc) []string {
	if p.Configuration == nil {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.Configuration)) {
		is, there := s.setting(name)
		if value := p.Configuration[name]; !there || !sameSetting(name, is, value) {
			diff.add("configuration."+name, is, value)
			out = append(out, fmt.Sprintf("ALTER ROLE %s SET %s TO %s", ident(s.Name), parameter(name), setting(name, value)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Config)) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(p.Configuration)), func(isSet string) bool { return strings.EqualFold(isSet, name) }) {
			diff.add("configuration."+name, s.Config[name], "unset")
			out = append(out, fmt.Sprintf("ALTER ROLE %s RESET %s", ident(s.Name), parameter(name)))
		}
	}
	return out
}

// The server spells its name as it knows it, such as TimeZone, whatever the case in the statement.
func (s roleState) setting(name string) (value string, exists bool) {
	for known, value := range s.Config {
		if strings.EqualFold(known, name) {
			return value, true
		}
	}
	return "", false
}

// Names of parameters of extensions have dots.
var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

func checkRole(p v1alpha1.RoleParameters) error {
	for _, group := range p.MemberOf {
		if err := checkName("memberOf", group); err != nil {
			return err
		}
	}
	names := map[string]string{} // by themselves in lower case
	for _, name := range slices.Sorted(maps.Keys(p.Configuration)) {
		if !parameterName.MatchString(name) || len(name) > maxNameLength {
			return fmt.Errorf("configuration: %q is not a valid name of a parameter", name)
		}
		if same, exists := names[strings.ToLower(name)]; exists {
			return fmt.Errorf("configuration: %q and %q are the same parameter: remove one", same, name)
		}
		names[strings.ToLower(name)] = name
		if err := checkText("configuration."+name, p.Configuration[name]); err != nil {
			return err
		}
	}
	return checkOptional("database", p.Database)
}

func parameter(name string) string { return ident(strings.Split(strings.ToLower(name), ".")...) }

// listParameters are the parameters with lists of names as values: a text with commas would be
// a single name for them.
var listParameters = []string{
	"search_path", "temp_tablespaces", "session_preload_libraries", "shared_preload_libraries", "local_preload_libraries", "unix_socket_directories",
}

// It is quoted.
func setting(name, value string) string {
	if !slices.Contains(listParameters, strings.ToLower(name)) {
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

// The comma after it is included.
var quotedItem = regexp.MustCompile(`^"((?:[^"]|"")*)"\s*(?:,\s*|$)`)

// The names have no quotes. A comma in quotes is a part of the name.
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
	if slices.Contains(listParameters, strings.ToLower(name)) {
		return slices.Equal(listItems(is), listItems(wanted))
	}
	return is == wanted
}
