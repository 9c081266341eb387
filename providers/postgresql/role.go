package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// roles says what is special about roles.
var roles = kind[*v1alpha1.Role]{
	typ:  "Role",
	spec: func(m *v1alpha1.Role) *resource.Spec { return &m.Spec.Spec },
	place: func(m *v1alpha1.Role) (string, string, error) {
		return "", named(m), checkName("the role's name", named(m))
	},
	look: lookAtRole,
}

// connecting is the mark of the role as which this program is logged in, whatever its
// comment says: with it in the hands of a managed resource the configuration would
// connect no more, and who made that would have the password, and all that the role may.
var connecting = external.Mark{ID: "connecting", Owner: "the configuration, which connects as it"}

func lookAtRole(ctx context.Context, v *visit, m *v1alpha1.Role, name string) (*sight, error) {
	begin, err := beginning(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := checkOptional("reassignOwnedTo", begin.ReassignOwnedTo); err != nil {
		return nil, err
	}
	if err := checkRole(begin); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	var state *roleState
	err = v.on(ctx, "", func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readRole(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	mark := "ROLE " + ident(name)
	s := &sight{presence: external.Absent, create: request{SQL: createRole(name, begin), Mark: mark}}
	if state == nil {
		return s, nil
	}
	s.presence, s.comment, s.at = external.Present, state.Comment, state.shown()
	if state.Connects {
		s.comment = commentOf(connecting)
	}
	s.changes.Mark = mark
	s.changes.SQL, s.differs = state.changes(m.Spec.ForProvider)
	s.remove = state.removal(m.Spec.ForProvider.ReassignOwnedTo)
	if m.DeletionTimestamp != nil || state.Connects {
		return s, nil
	}
	return s, s.credentials(v, m, state, v.has(ctx, state))
}

// shown is what status.atProvider tells.
func (s *roleState) shown() map[string]any {
	at := map[string]any{
		"oid": s.OID, "login": s.Is["LOGIN"], "superuser": s.Is["SUPERUSER"], "createDB": s.Is["CREATEDB"], "createRole": s.Is["CREATEROLE"],
		"replication": s.Is["REPLICATION"], "bypassRLS": s.Is["BYPASSRLS"], "inherit": s.Is["INHERIT"], "connectionLimit": int64(s.Limit),
		"memberOf": texts(s.Member), "configuration": textMap(s.Config), "comment": s.Comment,
	}
	if s.Until != nil {
		at["validUntil"] = s.Until.Format(time.RFC3339)
	}
	return at
}

// removal is the next of the calls that take a role away. What it owns is given to
// another role first, if there is to be one, in one database after the other: each
// is a call of its own, and what is left is seen by the next look.
func (s *roleState) removal(heir *string) request {
	if heir == nil || len(s.Holdings) == 0 {
		return request{SQL: []string{"DROP ROLE " + ident(s.Name)}}
	}
	return request{Database: s.Holdings[0], SQL: []string{
		fmt.Sprintf("REASSIGN OWNED BY %s TO %s", ident(s.Name), ident(*heir)),
		"DROP OWNED BY " + ident(s.Name),
	}}
}
