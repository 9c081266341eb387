package postgresql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var schemas = kind[*v1alpha1.Schema]{
	typ:  "Schema",
	spec: func(m *v1alpha1.Schema) *resource.Spec { return &m.Spec.Spec },
	locate: func(m *v1alpha1.Schema) (string, string, error) {
		return inDatabase(m.Spec.ForProvider.Database, externalName(m))
	},
	needs: func(sess *session, m *v1alpha1.Schema) []need {
		return needsOfSchema(externalName(m), m.Spec.ForProvider, sess.server.User)
	},
	adoption: func(m *v1alpha1.Schema) []need {
		return needsOfSchema(externalName(m), v1alpha1.SchemaParameters{Database: m.Spec.ForProvider.Database}, "")
	},
	observe: observeSchema,
}

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

func observeSchema(ctx context.Context, sess *session, m *v1alpha1.Schema, name string) (*observation, error) {
	initial, err := mergeInit(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := checkOptional("owner", initial.Owner); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	p := m.Spec.ForProvider
	database := *p.Database
	var state *schemaState
	err = sess.readIn(ctx, database, func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readSchema(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	create := "CREATE SCHEMA " + ident(name)
	if initial.Owner != nil {
		create += " AUTHORIZATION " + ident(*initial.Owner)
	}
	mark := "SCHEMA " + ident(name)
	obs := &observation{presence: external.Absent, create: request{Database: database, SQL: []string{create}, Mark: mark}}
	if state == nil {
		initial.Database = p.Database
		obs.needs = creationNeeds(needsOfSchema(name, initial, sess.server.User), needsOfSchema(name, p, sess.server.User))
		return obs, nil
	}
	obs.presence, obs.oid, obs.comment = external.Present, state.OID, state.Comment
	if !slices.Contains(schemaOwners(sess.server.User), state.Owner) {
		n := roleNeed("the external name", state.Owner)
		n.What = fmt.Sprintf("the schema belongs to the role %s, which no Role of the namespace manages", ident(state.Owner))
		obs.adoption = []need{n}
	}
	obs.atProvider = map[string]any{"oid": state.OID, "database": database, "owner": state.Owner, "comment": state.Comment}
	obs.update = request{Database: database, Mark: mark}
	if p.Owner != nil && *p.Owner != state.Owner {
		obs.update.SQL = []string{"ALTER SCHEMA " + ident(name) + " OWNER TO " + ident(*p.Owner)}
		obs.diff = []string{diffText("owner", state.Owner, *p.Owner)}
	}
	obs.deletion = request{Database: database, SQL: []string{"DROP SCHEMA " + ident(name) + cascadeClause(p.OnDelete)}}
	return obs, nil
}
