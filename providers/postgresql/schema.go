package postgresql

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// schemas says what is special about schemas.
var schemas = kind[*v1alpha1.Schema]{
	typ:  "Schema",
	spec: func(m *v1alpha1.Schema) *resource.Spec { return &m.Spec.Spec },
	place: func(m *v1alpha1.Schema) (string, string, error) {
		return in(m.Spec.ForProvider.Database, named(m))
	},
	look: lookAtSchema,
}

// schemaState is a schema as the server has it.
type schemaState struct {
	OID            int64
	Owner, Comment string
}

func readSchema(ctx context.Context, conn *pgx.Conn, name string) (*schemaState, error) {
	var s schemaState
	err := conn.QueryRow(ctx, `SELECT oid::int8, pg_get_userbyid(nspowner), left(coalesce(obj_description(oid, 'pg_namespace'), ''), 1000)
		FROM pg_namespace WHERE nspname = $1`, name).Scan(&s.OID, &s.Owner, &s.Comment)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &s, err
}

func lookAtSchema(ctx context.Context, v *visit, m *v1alpha1.Schema, name string) (*sight, error) {
	begin, err := beginning(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := checkOptional("owner", begin.Owner); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	p := m.Spec.ForProvider
	database := *p.Database
	var state *schemaState
	err = v.inside(ctx, database, func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readSchema(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	create := "CREATE SCHEMA " + ident(name)
	if begin.Owner != nil {
		create += " AUTHORIZATION " + ident(*begin.Owner)
	}
	mark := "SCHEMA " + ident(name)
	s := &sight{presence: external.Absent, create: request{Database: database, SQL: []string{create}, Mark: mark}}
	if state == nil {
		return s, nil
	}
	s.presence, s.comment = external.Present, state.Comment
	s.at = map[string]any{"oid": state.OID, "database": database, "owner": state.Owner, "comment": state.Comment}
	s.changes = request{Database: database, Mark: mark}
	if p.Owner != nil && *p.Owner != state.Owner {
		s.changes.SQL = []string{"ALTER SCHEMA " + ident(name) + " OWNER TO " + ident(*p.Owner)}
		s.differs = []string{differs("owner", state.Owner, *p.Owner)}
	}
	s.remove = request{Database: database, SQL: []string{"DROP SCHEMA " + ident(name) + cascading(p.OnDelete)}}
	return s, nil
}
