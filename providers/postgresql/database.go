package postgresql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// databases says what is special about databases.
var databases = kind[*v1alpha1.Database]{
	typ:  "Database",
	spec: func(m *v1alpha1.Database) *resource.Spec { return &m.Spec.Spec },
	place: func(m *v1alpha1.Database) (string, string, error) {
		return "", named(m), checkName("the database's name", named(m))
	},
	look: lookAtDatabase,
}

// databaseState is a database as the server has it.
type databaseState struct {
	Name                           string
	OID                            int64
	Owner, Encoding, Collate, CTyp string
	Tablespace                     string
	Allow, Template                bool
	Limit                          int32
	Comment                        string
}

func readDatabase(ctx context.Context, conn *pgx.Conn, name string) (*databaseState, error) {
	s := &databaseState{Name: name}
	err := conn.QueryRow(ctx, `SELECT d.oid::int8, pg_get_userbyid(d.datdba), pg_encoding_to_char(d.encoding), coalesce(d.datcollate, ''), coalesce(d.datctype, ''),
		t.spcname, d.datallowconn, d.datistemplate, d.datconnlimit, left(coalesce(shobj_description(d.oid, 'pg_database'), ''), 1000)
		FROM pg_database d JOIN pg_tablespace t ON t.oid = d.dattablespace WHERE d.datname = $1`, name).
		Scan(&s.OID, &s.Owner, &s.Encoding, &s.Collate, &s.CTyp, &s.Tablespace, &s.Allow, &s.Template, &s.Limit, &s.Comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return s, err
}

func lookAtDatabase(ctx context.Context, v *visit, m *v1alpha1.Database, name string) (*sight, error) {
	begin, err := beginning(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := checkDatabase(begin); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	var state *databaseState
	err = v.on(ctx, "", func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readDatabase(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &sight{presence: external.Absent, create: request{SQL: []string{createDatabase(name, begin)}}}
	if state == nil {
		return s, nil
	}
	s.presence, s.comment, s.at = external.Present, state.Comment, state.shown()
	s.changes, s.differs = state.changes(m.Spec.ForProvider)
	s.stuck = state.fixed(m.Spec.ForProvider)
	if s.stuck != "" {
		s.differs = append(s.differs, s.stuck)
	}
	s.remove = request{SQL: []string{"DROP DATABASE " + ident(name)}}
	if m.Spec.ForProvider.OnDelete == v1alpha1.DatabaseForce {
		s.remove.SQL[0] += " WITH (FORCE)"
	}
	connection := v.server.connection("", name)
	v.server.addURI(connection)
	s.connection = map[string][]byte{}
	for key, value := range connection {
		s.connection[key] = []byte(value)
	}
	return s, nil
}

// checkDatabase says which name, or which text, can't be one.
func checkDatabase(p v1alpha1.DatabaseParameters) error {
	return cmp.Or(
		checkOptional("owner", p.Owner), checkOptional("template", p.Template), checkOptional("tablespace", p.Tablespace),
		checkText("encoding", said(p.Encoding, "")), checkText("lcCollate", said(p.LCCollate, "")), checkText("lcCType", said(p.LCCType, "")),
	)
}

func (s *databaseState) shown() map[string]any {
	return map[string]any{
		"oid": s.OID, "owner": s.Owner, "encoding": s.Encoding, "lcCollate": s.Collate, "lcCType": s.CTyp, "tablespace": s.Tablespace,
		"allowConnections": s.Allow, "isTemplate": s.Template, "connectionLimit": int64(s.Limit), "comment": s.Comment,
	}
}

// createDatabase is the statement that makes a database. It can't be in a
// transaction, so that the mark comes after it.
func createDatabase(name string, p v1alpha1.DatabaseParameters) string {
	var sql strings.Builder
	sql.WriteString("CREATE DATABASE " + ident(name))
	for _, option := range []struct {
		word  string
		value *string
		quote func(string) string
	}{
		{"OWNER", p.Owner, func(s string) string { return ident(s) }}, {"TEMPLATE", p.Template, func(s string) string { return ident(s) }},
		{"ENCODING", p.Encoding, literal}, {"LC_COLLATE", p.LCCollate, literal}, {"LC_CTYPE", p.LCCType, literal},
		{"TABLESPACE", p.Tablespace, func(s string) string { return ident(s) }},
	} {
		if option.value != nil {
			sql.WriteString(" " + option.word + " " + option.quote(*option.value))
		}
	}
	if p.AllowConnections != nil {
		sql.WriteString(" ALLOW_CONNECTIONS " + strconv.FormatBool(*p.AllowConnections))
	}
	if p.ConnectionLimit != nil {
		fmt.Fprintf(&sql, " CONNECTION LIMIT %d", *p.ConnectionLimit)
	}
	if p.IsTemplate != nil {
		sql.WriteString(" IS_TEMPLATE " + strconv.FormatBool(*p.IsTemplate))
	}
	return sql.String()
}

// changes make a database what it is to be. Moving it elsewhere can't be in a
// transaction, and is a call of its own before the others.
func (s *databaseState) changes(p v1alpha1.DatabaseParameters) (request, []string) {
	alter := "ALTER DATABASE " + ident(s.Name) + " "
	if p.Tablespace != nil && *p.Tablespace != s.Tablespace {
		return request{SQL: []string{alter + "SET TABLESPACE " + ident(*p.Tablespace)}}, []string{differs("tablespace", s.Tablespace, *p.Tablespace)}
	}
	r := request{Mark: "DATABASE " + ident(s.Name)}
	var diff []string
	if p.Owner != nil && *p.Owner != s.Owner {
		r.SQL, diff = append(r.SQL, alter+"OWNER TO "+ident(*p.Owner)), append(diff, differs("owner", s.Owner, *p.Owner))
	}
	if p.AllowConnections != nil && *p.AllowConnections != s.Allow {
		r.SQL, diff = append(r.SQL, alter+"ALLOW_CONNECTIONS "+strconv.FormatBool(*p.AllowConnections)), append(diff, differs("allowConnections", s.Allow, *p.AllowConnections))
	}
	if p.ConnectionLimit != nil && *p.ConnectionLimit != s.Limit {
		r.SQL, diff = append(r.SQL, fmt.Sprintf("%sCONNECTION LIMIT %d", alter, *p.ConnectionLimit)), append(diff, differs("connectionLimit", s.Limit, *p.ConnectionLimit))
	}
	if p.IsTemplate != nil && *p.IsTemplate != s.Template {
		r.SQL, diff = append(r.SQL, alter+"IS_TEMPLATE "+strconv.FormatBool(*p.IsTemplate)), append(diff, differs("isTemplate", s.Template, *p.IsTemplate))
	}
	return r, diff
}

// fixed says what is to be other than it can become.
func (s *databaseState) fixed(p v1alpha1.DatabaseParameters) string {
	for _, f := range []struct {
		what   string
		is     string
		wanted *string
	}{{"encoding", s.Encoding, p.Encoding}, {"lcCollate", s.Collate, p.LCCollate}, {"lcCType", s.CTyp, p.LCCType}} {
		if f.wanted != nil && !sameLocale(*f.wanted, f.is) {
			return differs(f.what, f.is, *f.wanted) + "; that can't be changed: set it back, or make another database"
		}
	}
	return ""
}

// sameLocale compares names of encodings and locales as people write them: UTF-8,
// utf8 and UTF8 are one.
func sameLocale(a, b string) bool {
	plain := strings.NewReplacer("-", "", "_", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}
