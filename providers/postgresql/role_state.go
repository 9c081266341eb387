package postgresql

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// roleState is a role as the server has it.
type roleState struct {
	Name    string
	OID     int64
	Is      map[string]bool // by the attributes' words, such as LOGIN
	Limit   int32
	Until   *time.Time
	Comment string
	Member  []string
	Config  map[string]string
	// Stored is the verifier of its password, if Readable says that it can be read.
	Stored   string
	Readable bool
	// Holdings are the databases in which it owns something or was granted
	// something; an empty name stands for what belongs to the server.
	Holdings []string
}

// attributes are the words of roles' attributes, and the columns of pg_roles that
// hold them.
var attributes = []struct{ word, column string }{
	{"LOGIN", "rolcanlogin"}, {"SUPERUSER", "rolsuper"}, {"CREATEDB", "rolcreatedb"}, {"CREATEROLE", "rolcreaterole"},
	{"REPLICATION", "rolreplication"}, {"BYPASSRLS", "rolbypassrls"}, {"INHERIT", "rolinherit"},
}

const roleQuery = `SELECT r.oid::int8, r.rolcanlogin, r.rolsuper, r.rolcreatedb, r.rolcreaterole, r.rolreplication, r.rolbypassrls, r.rolinherit,
	r.rolconnlimit, extract(epoch FROM nullif(r.rolvaliduntil, 'infinity'))::float8, coalesce(shobj_description(r.oid, 'pg_authid'), ''),
	coalesce((SELECT string_agg(g.rolname, chr(10) ORDER BY g.rolname) FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid), ''),
	coalesce((SELECT array_to_string(s.setconfig, chr(30)) FROM pg_db_role_setting s WHERE s.setrole = r.oid AND s.setdatabase = 0), ''),
	has_column_privilege('pg_authid', 'rolpassword', 'SELECT'),
	coalesce((SELECT string_agg(DISTINCT coalesce(d.datname, ''), chr(10) ORDER BY coalesce(d.datname, '')) FROM pg_shdepend x LEFT JOIN pg_database d ON d.oid = x.dbid
		WHERE x.refclassid = 'pg_authid'::regclass AND x.refobjid = r.oid AND x.deptype IN ('o', 'a', 'r', 'i')), '<none>')
	FROM pg_roles r WHERE r.rolname = $1`

// readRole reads a role; nil if there is none.
func readRole(ctx context.Context, conn *pgx.Conn, name string) (*roleState, error) {
	s := &roleState{Name: name, Is: map[string]bool{}}
	flags := make([]bool, len(attributes))
	var until *float64
	var member, config, holdings string
	to := []any{&s.OID}
	for i := range flags {
		to = append(to, &flags[i])
	}
	to = append(to, &s.Limit, &until, &s.Comment, &member, &config, &s.Readable, &holdings)
	err := conn.QueryRow(ctx, roleQuery, name).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, a := range attributes {
		s.Is[a.word] = flags[i]
	}
	if until != nil {
		at := time.UnixMicro(int64(*until * 1e6)).UTC()
		s.Until = &at
	}
	s.Member, s.Config = lines(member), settings(config)
	if holdings != "<none>" {
		s.Holdings = strings.Split(holdings, "\n")
	}
	if s.Readable {
		err = conn.QueryRow(ctx, `SELECT coalesce(rolpassword, '') FROM pg_authid WHERE rolname = $1`, name).Scan(&s.Stored)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil
		}
	}
	return s, err
}

// lines are the lines of a text; none of an empty one.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// settings reads parameters as the server stores them, name=value.
func settings(text string) map[string]string {
	out := map[string]string{}
	for _, item := range strings.Split(text, "\x1e") {
		if name, value, ok := strings.Cut(item, "="); ok {
			out[name] = value
		}
	}
	return out
}
