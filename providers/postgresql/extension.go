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

var extensions = kind[*v1alpha1.Extension]{
	typ:  "Extension",
	spec: func(m *v1alpha1.Extension) *resource.Spec { return &m.Spec.Spec },
	locate: func(m *v1alpha1.Extension) (string, string, error) {
		return inDatabase(m.Spec.ForProvider.Database, nameOfExtension(m))
	},
	needs: func(_ *session, m *v1alpha1.Extension) []need {
		return extensionNeeds(nameOfExtension(m), m.Spec.ForProvider)
	},
	adoption: func(m *v1alpha1.Extension) []need {
		return extensionNeeds(nameOfExtension(m), v1alpha1.ExtensionParameters{Database: m.Spec.ForProvider.Database})
	},
	observe: observeExtension,
}

func nameOfExtension(m *v1alpha1.Extension) string {
	return cmp.Or(valueOr(m.Spec.ForProvider.Name, ""), externalName(m))
}

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

func observeExtension(ctx context.Context, sess *session, m *v1alpha1.Extension, name string) (*observation, error) {
	initial, err := mergeInit(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkOptional("schema", initial.Schema), checkText("version", valueOr(initial.Version, ""))); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	p := m.Spec.ForProvider
	database := *p.Database
	var state *extensionState
	err = sess.readIn(ctx, database, func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readExtension(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	// An extension has a comment of its own when it is created. The creation replaces it by
	// the mark in the same transaction.
	mark := "EXTENSION " + ident(name)
	obs := &observation{presence: external.Absent, create: request{Database: database, SQL: createExtension(name, initial), Mark: mark}}
	if state == nil {
		initial.Database = p.Database
		params := p
		params.Cascade = initial.Cascade // the field of that need is the name
		obs.needs = creationNeeds(extensionNeeds(name, initial), extensionNeeds(name, params))
		return obs, nil
	}
	obs.presence, obs.oid, obs.comment = external.Present, state.OID, state.Comment
	obs.atProvider = map[string]any{"oid": state.OID, "database": database, "version": state.Version, "schema": state.Schema, "comment": state.Comment}
	obs.update = request{Database: database, Mark: mark}
	obs.update.SQL, obs.diff = state.changes(name, p)
	obs.deletion = request{Database: database, SQL: []string{"DROP EXTENSION " + ident(name) + cascadeClause(p.OnDelete)}}
	return obs, nil
}

// Without a schema, it is created in public, or in the schema that its control file requires.
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
	if valueOr(p.Cascade, false) {
		sql += " CASCADE"
	}
	return append(before, sql)
}

func (s *extensionState) changes(name string, p v1alpha1.ExtensionParameters) (sql, diff []string) {
	alter := "ALTER EXTENSION " + ident(name)
	if p.Version != nil && *p.Version != s.Version {
		sql, diff = append(sql, alter+" UPDATE TO "+literal(*p.Version)), append(diff, diffText("version", s.Version, *p.Version))
	}
	if p.Schema != nil && *p.Schema != s.Schema {
		sql, diff = append(sql, alter+" SET SCHEMA "+ident(*p.Schema)), append(diff, diffText("schema", s.Schema, *p.Schema))
	}
	return sql, diff
}
