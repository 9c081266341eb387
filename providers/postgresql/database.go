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

var databases = kind[*v1alpha1.Database]{
	typ:  "Database",
	spec: func(m *v1alpha1.Database) *resource.Spec { return &m.Spec.Spec },
	locate: func(m *v1alpha1.Database) (string, string, error) {
		return "", externalName(m), checkName("the database's name", externalName(m))
	},
	needs: func(sess *session, m *v1alpha1.Database) []need {
		return databaseNeeds(m.Spec.ForProvider, sess.server.User)
	},
	adoption: func(m *v1alpha1.Database) []need { return []need{databaseNeed("the external name", externalName(m))} },
	observe:  observeDatabase,
}

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

func observeDatabase(ctx context.Context, sess *session, m *v1alpha1.Database, name string) (*observation, error) {
	initial, err := mergeInit(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := checkDatabase(initial); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	var state *databaseState
	err = sess.read(ctx, "", func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readDatabase(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	obs := &observation{presence: external.Absent, create: request{SQL: []string{createDatabase(name, initial)}}}
	if state == nil {
		needs := func(p v1alpha1.DatabaseParameters) []need {
			return append(databaseNeeds(p, sess.server.User), copyNeeds(p)...)
		}
		obs.needs = creationNeeds(needs(initial), needs(m.Spec.ForProvider))
		return obs, nil
	}
	obs.presence, obs.oid, obs.comment, obs.atProvider = external.Present, state.OID, state.Comment, state.atProvider()
	obs.update, obs.diff = state.changes(m.Spec.ForProvider)
	obs.immutable = state.immutableDiff(m.Spec.ForProvider)
	if obs.immutable != "" {
		obs.diff = append(obs.diff, obs.immutable)
	}
	obs.deletion = state.deletion(m.Spec.ForProvider)
	connection := sess.server.connection("", name)
	sess.server.addURI(connection)
	obs.connection = map[string][]byte{}
	for key, value := range connection {
		obs.connection[key] = []byte(value)
	}
	return obs, nil
}

func checkDatabase(p v1alpha1.DatabaseParameters) error {
	return cmp.Or(
		checkOptional("owner", p.Owner), checkOptional("template", p.Template), checkOptional("tablespace", p.Tablespace),
		checkText("encoding", valueOr(p.Encoding, "")), checkText("lcCollate", valueOr(p.LCCollate, "")), checkText("lcCType", valueOr(p.LCCType, "")),
	)
}

func (s *databaseState) atProvider() map[string]any {
	return map[string]any{
		"oid": s.OID, "owner": s.Owner, "encoding": s.Encoding, "lcCollate": s.Collate, "lcCType": s.CTyp, "tablespace": s.Tablespace,
		"allowConnections": s.Allow, "isTemplate": s.Template, "connectionLimit": int64(s.Limit), "comment": s.Comment,
	}
}

// It cannot be in a transaction, so the next call sets the mark.
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

// A change of the tablespace cannot be in a transaction, and is a call of its own before the other changes.
func (s *databaseState) changes(p v1alpha1.DatabaseParameters) (request, []string) {
	alter := "ALTER DATABASE " + ident(s.Name) + " "
	if p.Tablespace != nil && *p.Tablespace != s.Tablespace {
		return request{SQL: []string{alter + "SET TABLESPACE " + ident(*p.Tablespace)}}, []string{diffText("tablespace", s.Tablespace, *p.Tablespace)}
	}
	r := request{Mark: "DATABASE " + ident(s.Name)}
	var diff []string
	if p.Owner != nil && *p.Owner != s.Owner {
		r.SQL, diff = append(r.SQL, alter+"OWNER TO "+ident(*p.Owner)), append(diff, diffText("owner", s.Owner, *p.Owner))
	}
	if p.AllowConnections != nil && *p.AllowConnections != s.Allow {
		r.SQL, diff = append(r.SQL, alter+"ALLOW_CONNECTIONS "+strconv.FormatBool(*p.AllowConnections)),
			append(diff, diffText("allowConnections", s.Allow, *p.AllowConnections))
	}
	if p.ConnectionLimit != nil && *p.ConnectionLimit != s.Limit {
		r.SQL, diff = append(r.SQL, fmt.Sprintf("%sCONNECTION LIMIT %d", alter, *p.ConnectionLimit)),
			append(diff, diffText("connectionLimit", s.Limit, *p.ConnectionLimit))
	}
	if p.IsTemplate != nil && *p.IsTemplate != s.Template {
		r.SQL, diff = append(r.SQL, alter+"IS_TEMPLATE "+strconv.FormatBool(*p.IsTemplate)), append(diff, diffText("isTemplate", s.Template, *p.IsTemplate))
	}
	return r, diff
}

// The server refuses to drop a template, so one that should be none becomes an ordinary database first.
func (s *databaseState) deletion(p v1alpha1.DatabaseParameters) request {
	if s.Template && !valueOr(p.IsTemplate, true) {
		return request{SQL: []string{"ALTER DATABASE " + ident(s.Name) + " IS_TEMPLATE false"}}
	}
	return request{SQL: []string{"DROP DATABASE " + ident(s.Name) + textIf(p.OnDelete == v1alpha1.DatabaseForce, " WITH (FORCE)")}}
}

// It is empty for no difference.
func (s *databaseState) immutableDiff(p v1alpha1.DatabaseParameters) string {
	for _, f := range []struct {
		what   string
		is     string
		wanted *string
	}{{"encoding", s.Encoding, p.Encoding}, {"lcCollate", s.Collate, p.LCCollate}, {"lcCType", s.CTyp, p.LCCType}} {
		if f.wanted != nil && !sameLocale(*f.wanted, f.is) {
			return diffText(f.what, f.is, *f.wanted) + "; it cannot be changed after the creation: restore the former value, or create another database"
		}
	}
	return ""
}

// sameLocale compares names of encodings and locales, ignoring case and dashes: UTF-8, utf8
// and UTF8 are the same.
func sameLocale(a, b string) bool {
	plain := strings.NewReplacer("-", "", "_", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}
