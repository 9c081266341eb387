package postgresql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// grants says what is special about grants. They carry no marks.
var grants = kind[*v1alpha1.Grant]{
	typ:  "Grant",
	spec: func(m *v1alpha1.Grant) *resource.Spec { return &m.Spec.Spec },
	place: func(m *v1alpha1.Grant) (string, string, error) {
		t, err := targetOf(m.Spec.ForProvider)
		database, name := t.place()
		return database, name, err
	},
	look: lookAtGrant,
}

func lookAtGrant(ctx context.Context, v *visit, m *v1alpha1.Grant, _ string) (*sight, error) {
	p := m.Spec.ForProvider
	t, err := targetOf(p)
	if err != nil {
		return nil, err
	}
	begin, err := beginning(m.Spec.InitProvider, p)
	if err != nil {
		return nil, err
	}
	database, _ := t.place()
	s, err := v.readGrant(ctx, database, t)
	if err != nil {
		return nil, err
	}
	if missing := t.missing(s); missing != "" && m.DeletionTimestamp == nil {
		return nil, errors.New(missing)
	}
	out := &sight{presence: external.Absent, create: request{Database: database, SQL: t.grant(s, begin)}}
	if !s.granted() {
		return out, nil
	}
	out.presence, out.at = external.Present, t.shown(s)
	out.changes.Database = database
	out.changes.SQL, out.differs = t.changes(s, p)
	out.remove = request{Database: database, SQL: t.revoke(s)}
	return out, nil
}

// missing says what of the things that are meant isn't there: of what doesn't exist
// it can't be told whether it was granted.
func (t target) missing(s grantState) string {
	word := strings.ToLower(string(t.on))
	switch {
	case t.group != "" || t.on == v1alpha1.OnDatabase || t.on == v1alpha1.OnSchema || s.All == nil:
		return ""
	case len(t.objects) == 0 && len(s.Privileges) == 0:
		return fmt.Sprintf("the schema %s of database %s has no %s to grant yet", ident(t.schema), ident(t.database), word)
	}
	for _, name := range t.objects {
		prefix := ident(t.schema, name)
		if !slices.ContainsFunc(s.objects(), func(o string) bool { return o == prefix || strings.HasPrefix(o, prefix+"(") }) {
			return fmt.Sprintf("%s isn't among the %s of database %s yet", prefix, word, ident(t.database))
		}
	}
	return ""
}

// shown is what status.atProvider tells.
func (t target) shown(s grantState) map[string]any {
	all, option := map[string]bool{}, t.group != "" && s.Admin
	for _, has := range s.Privileges {
		for privilege, grantable := range has {
			all[privilege] = true
			option = option || grantable
		}
	}
	return map[string]any{
		"role": t.role, "objectType": string(t.on), "privileges": texts(slices.Sorted(maps.Keys(all))),
		"withOption": option, "objects": int64(len(s.Privileges)),
	}
}

// Queries for things that can be granted: each gives the thing as a statement calls
// it, in parts, and a privilege that the role has on it, or none.
const (
	databaseQuery = `SELECT '', d.datname, '', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false) FROM pg_database d
		LEFT JOIN LATERAL (SELECT * FROM aclexplode(d.datacl) x WHERE x.grantee = $3) a ON true WHERE d.datname = $1 AND cardinality($2::text[]) >= 0`
	schemaQuery = `SELECT '', n.nspname, '', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false) FROM pg_namespace n
		LEFT JOIN LATERAL (SELECT * FROM aclexplode(n.nspacl) x WHERE x.grantee = $3) a ON true WHERE n.nspname = $1 AND cardinality($2::text[]) >= 0`
	relationQuery = `SELECT n.nspname, c.relname, '', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN LATERAL (SELECT * FROM aclexplode(c.relacl) x WHERE x.grantee = $3) a ON true
		WHERE n.nspname = $1 AND c.relkind = ANY ($4::text[]::"char"[]) AND (cardinality($2::text[]) = 0 OR c.relname = ANY ($2::text[]))`
	routineQuery = `SELECT n.nspname, p.proname, '(' || pg_get_function_identity_arguments(p.oid) || ')', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		LEFT JOIN LATERAL (SELECT * FROM aclexplode(p.proacl) x WHERE x.grantee = $3) a ON true
		WHERE n.nspname = $1 AND (cardinality($2::text[]) = 0 OR p.proname = ANY ($2::text[]))`
)

// readGrant reads what a role has of a thing; nothing of what isn't there.
func (v *visit) readGrant(ctx context.Context, database string, t target) (s grantState, err error) {
	s.Privileges = map[string]map[string]bool{}
	err = v.inside(ctx, database, func(ctx context.Context, conn *pgx.Conn) error {
		if t.group != "" {
			return conn.QueryRow(ctx, `SELECT count(*) > 0, coalesce(bool_or(m.admin_option), false) FROM pg_auth_members m
				JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member WHERE g.rolname = $1 AND r.rolname = $2`, t.group, t.role).Scan(&s.Member, &s.Admin)
		}
		rows, err := conn.Query(ctx, `SELECT DISTINCT privilege_type FROM aclexplode(acldefault($1::text::"char", 10)) WHERE grantee = 10 ORDER BY 1`, words[t.on].letter)
		if err != nil {
			return err
		}
		if s.All, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		// In what was granted, 0 is everybody. A role that isn't there is none, which
		// nothing was granted to.
		var role *uint32
		err = conn.QueryRow(ctx, `SELECT oid FROM pg_roles WHERE rolname = $1 UNION SELECT 0 WHERE $1 = $2`, t.role, everybody).Scan(&role)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return s.readThings(ctx, conn, t, role)
	})
	return s, err
}

func (s *grantState) readThings(ctx context.Context, conn *pgx.Conn, t target, role *uint32) error {
	query, args := relationQuery, []any{t.schema, append([]string{}, t.objects...), role}
	switch t.on {
	case v1alpha1.OnDatabase:
		query, args[0] = databaseQuery, t.database
	case v1alpha1.OnSchema:
		query = schemaQuery
	case v1alpha1.OnFunctions:
		query = routineQuery
	case v1alpha1.OnTables:
		args = append(args, []string{"r", "v", "m", "p", "f"})
	case v1alpha1.OnSequences:
		args = append(args, []string{"S"})
	}
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	var schema, name, arguments, privilege string
	var grantable bool
	_, err = pgx.ForEachRow(rows, []any{&schema, &name, &arguments, &privilege, &grantable}, func() error {
		thing := ident(name)
		if schema != "" {
			thing = ident(schema, name) + arguments // these the server has quoted
		}
		if s.Privileges[thing] == nil {
			s.Privileges[thing] = map[string]bool{}
		}
		if privilege != "" {
			s.Privileges[thing][privilege] = s.Privileges[thing][privilege] || grantable
		}
		return nil
	})
	return err
}
