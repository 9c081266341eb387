package postgresql

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// extensions says what is special about extensions.
var extensions = kind[*v1alpha1.Extension]{
	typ:  "Extension",
	spec: func(m *v1alpha1.Extension) *resource.Spec { return &m.Spec.Spec },
	place: func(m *v1alpha1.Extension) (string, string, error) {
		return in(m.Spec.ForProvider.Database, cmp.Or(said(m.Spec.ForProvider.Name, ""), named(m)))
	},
	look: lookAtExtension,
}

// extensionState is an extension as the server has it.
type extensionState struct {
	OID                      int64
	Version, Schema, Comment string
}

func readExtension(ctx context.Context, conn *pgx.Conn, name string) (*extensionState, error) {
	var s extensionState
	err := conn.QueryRow(ctx, `SELECT e.oid::int8, e.extversion, n.nspname, left(coalesce(obj_description(e.oid, 'pg_extension'), ''), 1000)
		FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = $1`, name).
		Scan(&s.OID, &s.Version, &s.Schema, &s.Comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &s, err
}

func lookAtExtension(ctx context.Context, v *visit, m *v1alpha1.Extension, name string) (*sight, error) {
	begin, err := beginning(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkOptional("schema", begin.Schema), checkText("version", said(begin.Version, ""))); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	p := m.Spec.ForProvider
	database := *p.Database
	var state *extensionState
	err = v.inside(ctx, database, func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readExtension(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	// An extension brings a comment of its own, in whose place the mark comes as long
	// as nobody has seen it.
	mark := "EXTENSION " + ident(name)
	s := &sight{presence: external.Absent, create: request{Database: database, SQL: createExtension(name, begin), Mark: mark}}
	if state == nil {
		return s, nil
	}
	s.presence, s.comment = external.Present, state.Comment
	s.at = map[string]any{"oid": state.OID, "database": database, "version": state.Version, "schema": state.Schema, "comment": state.Comment}
	s.changes = request{Database: database, Mark: mark}
	s.changes.SQL, s.differs = state.changes(name, p)
	s.remove = request{Database: database, SQL: []string{"DROP EXTENSION " + ident(name) + cascading(p.OnDelete)}}
	return s, nil
}

// createExtension are the statements that make an extension. One that doesn't say
// where is put into the schema public, or where it demands to be.
func createExtension(name string, p v1alpha1.ExtensionParameters) []string {
	sql := "CREATE EXTENSION " + ident(name)
	var before []string
	if p.Schema != nil {
		sql += " SCHEMA " + ident(*p.Schema)
	} else {
		before = []string{"SET LOCAL search_path TO public"}
	}
	if p.Version != nil {
		sql += " VERSION " + literal(*p.Version)
	}
	if said(p.Cascade, false) {
		sql += " CASCADE"
	}
	return append(before, sql)
}

// changes make an extension what it is to be.
func (s *extensionState) changes(name string, p v1alpha1.ExtensionParameters) (sql, diff []string) {
	alter := "ALTER EXTENSION " + ident(name)
	if p.Version != nil && *p.Version != s.Version {
		sql, diff = append(sql, alter+" UPDATE TO "+literal(*p.Version)), append(diff, differs("version", s.Version, *p.Version))
	}
	if p.Schema != nil && *p.Schema != s.Schema {
		sql, diff = append(sql, alter+" SET SCHEMA "+ident(*p.Schema)), append(diff, differs("schema", s.Schema, *p.Schema))
	}
	return sql, diff
}
