package postgresql

import (
	"cmp"
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

// Grants carry no marks.
var grants = kind[*v1alpha1.Grant]{
	typ:  "Grant",
	spec: func(m *v1alpha1.Grant) *resource.Spec { return &m.Spec.Spec },
	locate: func(m *v1alpha1.Grant) (string, string, error) {
		t, err := parseTarget(m.Spec.ForProvider)
		database, name := t.key()
		return database, name, err
	},
	needs:    func(_ *session, m *v1alpha1.Grant) []need { return grantNeeds(m.Spec.ForProvider) },
	adoption: func(m *v1alpha1.Grant) []need { return grantNeeds(m.Spec.ForProvider) },
	observe:  observeGrant,
}

func observeGrant(ctx context.Context, sess *session, m *v1alpha1.Grant, _ string) (*observation, error) {
	p := m.Spec.ForProvider
	t, err := parseTarget(p)
	if err != nil {
		return nil, err
	}
	initial, err := mergeInit(m.Spec.InitProvider, p)
	if err != nil {
		return nil, err
	}
	database, _ := t.key()
	s, err := sess.readGrant(ctx, database, t)
	if err != nil {
		return nil, err
	}
	if t.isInSchema() {
		if s.OwnRoles, err = sess.ownRoles(s.Owners); err != nil {
			return nil, err
		}
	}
	if missing := cmp.Or(t.missingObject(s), t.onlyForeign(s)); missing != "" && m.DeletionTimestamp == nil {
		return nil, errors.New(missing)
	}
	obs := &observation{presence: external.Absent, create: request{Database: database, SQL: t.grant(s, initial)}}
	if !s.isGranted() {
		obs.needs = t.foreignNeeds(s, initial)
		return obs, nil
	}
	obs.needs, obs.adoption = t.foreignNeeds(s, p), t.adoptionNeeds(s)
	obs.presence, obs.atProvider = external.Present, t.atProvider(s)
	obs.update.Database = database
	obs.update.SQL, obs.diff = t.changes(s, p)
	obs.deletion = request{Database: database, SQL: t.revoke(s)}
	return obs, nil
}

// It is empty if all objects exist. Whether privileges on a missing object are granted cannot be determined.
func (t target) missingObject(s grantState) string {
	word := strings.ToLower(string(t.on))
	switch {
	case t.group != "" || t.on == v1alpha1.OnDatabase || t.on == v1alpha1.OnSchema || s.All == nil:
		return ""
	case len(t.objects) == 0 && len(s.Privileges) == 0:
		return fmt.Sprintf("the schema %s of database %s has no %s to grant privileges on", ident(t.schema), ident(t.database), word)
	}
	for _, name := range t.objects {
		prefix := ident(t.schema, name)
		if !slices.ContainsFunc(s.objects(), func(o string) bool { return o == prefix || strings.HasPrefix(o, prefix+"(") }) {
			return fmt.Sprintf("%s does not exist among the %s of database %s", prefix, word, ident(t.database))
		}
	}
	return ""
}

func (t target) atProvider(s grantState) map[string]any {
	all, option := map[string]bool{}, t.group != "" && s.Admin
	for _, has := range s.Privileges {
		for privilege, grantable := range has {
			all[privilege] = true
			option = option || grantable
		}
	}
	return map[string]any{
		"role": t.role, "objectType": string(t.on), "privileges": anySlice(slices.Sorted(maps.Keys(all))),
		"withOption": option, "objects": int64(s.countObjects()),
	}
}

// Queries for objects and the privileges of a role on them. Each row has the parts of the
// object's name, and one privilege, or none, with the role that has granted it, unless that is the
// owner. The last part is the owner of an object in a schema.
const (
	databaseQuery = `SELECT '', d.datname, '', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false), coalesce(pg_get_userbyid(a.other), ''), '' FROM pg_database d
		LEFT JOIN LATERAL (SELECT x.*, nullif(x.grantor, d.datdba) AS other FROM aclexplode(d.datacl) x WHERE x.grantee = $3) a ON true WHERE d.datname = $1 AND cardinality($2::text[]) >= 0`
	schemaQuery = `SELECT '', n.nspname, '', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false), coalesce(pg_get_userbyid(a.other), ''), '' FROM pg_namespace n
		LEFT JOIN LATERAL (SELECT x.*, nullif(x.grantor, n.nspowner) AS other FROM aclexplode(n.nspacl) x WHERE x.grantee = $3) a ON true WHERE n.nspname = $1 AND cardinality($2::text[]) >= 0`
	relationQuery = `SELECT n.nspname, c.relname, '', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false), coalesce(pg_get_userbyid(a.other), ''), pg_get_userbyid(c.relowner) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN LATERAL (SELECT x.*, nullif(x.grantor, c.relowner) AS other FROM aclexplode(c.relacl) x WHERE x.grantee = $3) a ON true
		WHERE n.nspname = $1 AND c.relkind = ANY ($4::text[]::"char"[]) AND (cardinality($2::text[]) = 0 OR c.relname = ANY ($2::text[]))`
	routineQuery = `SELECT n.nspname, p.proname, '(' || pg_get_function_identity_arguments(p.oid) || ')', coalesce(a.privilege_type, ''), coalesce(a.is_grantable, false), coalesce(pg_get_userbyid(a.other), ''), pg_get_userbyid(p.proowner) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		LEFT JOIN LATERAL (SELECT x.*, nullif(x.grantor, p.proowner) AS other FROM aclexplode(p.proacl) x WHERE x.grantee = $3) a ON true
		WHERE n.nspname = $1 AND (cardinality($2::text[]) = 0 OR p.proname = ANY ($2::text[]))`
)

// There are none if the target does not exist.
func (sess *session) readGrant(ctx context.Context, database string, t target) (s grantState, err error) {
	s.Privileges, s.Owners = map[string]map[string]bool{}, map[string]string{}
	err = sess.readIn(ctx, database, func(ctx context.Context, conn *pgx.Conn) error {
		if t.group != "" {
			return conn.QueryRow(ctx, `SELECT count(*) > 0, coalesce(bool_or(m.admin_option), false) FROM pg_auth_members m
				JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member WHERE g.rolname = $1 AND r.rolname = $2`, t.group, t.role).Scan(&s.Member, &s.Admin)
		}
		rows, err := conn.Query(ctx, `SELECT DISTINCT privilege_type FROM aclexplode(acldefault($1::text::"char", 10)) WHERE grantee = 10 ORDER BY 1`, keywords[t.on].letter)
		if err != nil {
			return err
		}
		if s.All, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		// In ACLs, 0 stands for PUBLIC. For a role that does not exist the OID is NULL, which
		// matches no grantee.
		var role *uint32
		err = conn.QueryRow(ctx, `SELECT oid FROM pg_roles WHERE rolname = $1 UNION SELECT 0 WHERE $1 = $2`, t.role, publicRole).Scan(&role)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return s.readObjects(ctx, conn, t, role)
	})
	return s, err
}

func (s *grantState) readObjects(ctx context.Context, conn *pgx.Conn, t target, role *uint32) error {
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
	var schema, name, arguments, privilege, grantor, owner string
	var grantable bool
	_, err = pgx.ForEachRow(rows, []any{&schema, &name, &arguments, &privilege, &grantable, &grantor, &owner}, func() error {
		object := ident(name)
		if schema != "" {
			object = ident(schema, name) + arguments // the server has quoted the arguments
		}
		if s.Privileges[object] == nil {
			s.Privileges[object] = map[string]bool{}
		}
		if owner != "" {
			s.Owners[object] = owner
		}
		if privilege != "" {
			s.Privileges[object][privilege] = s.Privileges[object][privilege] || grantable
		}
		if grantor != "" {
			s.addByOther(grantor, object, privilege, grantable)
		}
		return nil
	})
	return err
}

func (s *grantState) addByOther(grantor, object, privilege string, grantable bool) {
	if s.ByOthers == nil {
		s.ByOthers = map[string]map[string]map[string]bool{}
	}
	if s.ByOthers[grantor] == nil {
		s.ByOthers[grantor] = map[string]map[string]bool{}
	}
	if s.ByOthers[grantor][object] == nil {
		s.ByOthers[grantor][object] = map[string]bool{}
	}
	s.ByOthers[grantor][object][privilege] = grantable
}
