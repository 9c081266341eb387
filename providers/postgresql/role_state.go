package postgresql

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

type roleState struct {
	Name string
	OID  int64
	// IsOwnUser reports whether this program is logged in as the role.
	IsOwnUser  bool
	Attributes map[string]bool // by keywords, such as LOGIN
	Limit      int32
	Until      *time.Time
	Comment    string
	Member     []string
	Config     map[string]string
	// Stored is the verifier of its password, if it is Readable for this program.
	Stored   string
	Readable bool
	// DependentDatabases are the databases with objects that it owns or privileges that it has. An empty name stands
	// for objects of the whole server.
	DependentDatabases []string
}

// attributes are the keywords of roles' attributes, and their columns in pg_roles.
var attributes = []struct{ keyword, column string }{
	{"LOGIN", "rolcanlogin"}, {"SUPERUSER", "rolsuper"}, {"CREATEDB", "rolcreatedb"}, {"CREATEROLE", "rolcreaterole"},
	{"REPLICATION", "rolreplication"}, {"BYPASSRLS", "rolbypassrls"}, {"INHERIT", "rolinherit"},
}

const roleQuery = `SELECT r.oid::int8, r.rolname = session_user, r.rolcanlogin, r.rolsuper, r.rolcreatedb, r.rolcreaterole, r.rolreplication, r.rolbypassrls, r.rolinherit,
	r.rolconnlimit, extract(epoch FROM nullif(r.rolvaliduntil, 'infinity'))::float8, left(coalesce(shobj_description(r.oid, 'pg_authid'), ''), 1000),
	ARRAY(SELECT DISTINCT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid ORDER BY 1),
	coalesce((SELECT s.setconfig FROM pg_db_role_setting s WHERE s.setrole = r.oid AND s.setdatabase = 0), '{}'),
	has_column_privilege('pg_authid', 'rolpassword', 'SELECT'),
	ARRAY(SELECT DISTINCT coalesce(d.datname::text, '') FROM pg_shdepend x LEFT JOIN pg_database d ON d.oid = x.dbid
		WHERE x.refclassid = 'pg_authid'::regclass AND x.refobjid = r.oid AND x.deptype IN ('o', 'a', 'r', 'i') ORDER BY 1)
	FROM pg_roles r WHERE r.rolname = $1`

// It is nil if the role does not exist.
func readRole(ctx context.Context, conn *pgx.Conn, name string) (*roleState, error) {
	s := &roleState{Name: name, Attributes: map[string]bool{}}
	flags := make([]bool, len(attributes))
	var until *float64
	var config []string
	to := []any{&s.OID, &s.IsOwnUser}
	for i := range flags {
		to = append(to, &flags[i])
	}
	to = append(to, &s.Limit, &until, &s.Comment, &s.Member, &config, &s.Readable, &s.DependentDatabases)
	err := conn.QueryRow(ctx, roleQuery, name).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, a := range attributes {
		s.Attributes[a.keyword] = flags[i]
	}
	if until != nil {
		at := time.UnixMicro(int64(*until * 1e6)).UTC()
		s.Until = &at
	}
	s.Config = settings(config)
	if s.Readable {
		err = conn.QueryRow(ctx, `SELECT coalesce(rolpassword, '') FROM pg_authid WHERE rolname = $1`, name).Scan(&s.Stored)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil
		}
	}
	return s, err
}

// The server stores them as name=value.
func settings(list []string) map[string]string {
	out := map[string]string{}
	for _, item := range list {
		if name, value, ok := strings.Cut(item, "="); ok {
			out[name] = value
		}
	}
	return out
}
