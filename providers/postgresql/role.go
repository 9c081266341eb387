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

var roles = kind[*v1alpha1.Role]{
	typ:  "Role",
	spec: func(m *v1alpha1.Role) *resource.Spec { return &m.Spec.Spec },
	locate: func(m *v1alpha1.Role) (string, string, error) {
		return "", externalName(m), checkName("the role's name", externalName(m))
	},
	needs:    func(_ *session, m *v1alpha1.Role) []need { return roleNeeds(m.Spec.ForProvider) },
	adoption: func(m *v1alpha1.Role) []need { return []need{roleNeed("the external name", externalName(m))} },
	observe:  observeRole,
}

// ownUserMark is the mark of the role that this program logs in as, whatever its comment is. It
// protects the role from adoption: a managed resource of it would change its password, which
// breaks the configuration, and would publish the password with all privileges of the role.
var ownUserMark = external.Mark{ID: "connecting", Owner: "connecting", Holder: "the configuration, which connects as it"}

func observeRole(ctx context.Context, sess *session, m *v1alpha1.Role, name string) (*observation, error) {
	initial, err := mergeInit(m.Spec.InitProvider, m.Spec.ForProvider)
	if err != nil {
		return nil, err
	}
	if err := checkOptional("reassignOwnedTo", initial.ReassignOwnedTo); err != nil {
		return nil, err
	}
	if err := checkRole(initial); err != nil && m.DeletionTimestamp == nil {
		return nil, err
	}
	var state *roleState
	err = sess.read(ctx, "", func(ctx context.Context, conn *pgx.Conn) (err error) {
		state, err = readRole(ctx, conn, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	mark := "ROLE " + ident(name)
	obs := &observation{presence: external.Absent, create: request{SQL: createRole(name, initial), Mark: mark}}
	if state == nil {
		obs.needs = creationNeeds(roleNeeds(initial), roleNeeds(m.Spec.ForProvider))
		return obs, nil
	}
	obs.needs = state.resetNeeds(m.Spec.ForProvider)
	obs.presence, obs.oid, obs.comment, obs.atProvider = external.Present, state.OID, state.Comment, state.atProvider()
	if state.IsOwnUser {
		obs.mark = &ownUserMark
	}
	obs.update.Mark = mark
	obs.update.SQL, obs.diff = state.changes(m.Spec.ForProvider)
	obs.deletion = state.deletion(m.Spec.ForProvider.ReassignOwnedTo)
	if state.IsOwnUser {
		obs.update, obs.diff = request{}, nil // also if it is shared, and not adopted
	}
	if m.DeletionTimestamp != nil || state.IsOwnUser || sess.isForeign {
		return obs, nil // no password of a foreign role is verified
	}
	return obs, obs.credentials(sess, m, state, sess.passwordCheck(ctx, state))
}

func (s *roleState) atProvider() map[string]any {
	at := map[string]any{
		"oid": s.OID, "login": s.Attributes["LOGIN"], "superuser": s.Attributes["SUPERUSER"], "createDB": s.Attributes["CREATEDB"],
		"createRole":  s.Attributes["CREATEROLE"],
		"replication": s.Attributes["REPLICATION"], "bypassRLS": s.Attributes["BYPASSRLS"], "inherit": s.Attributes["INHERIT"], "connectionLimit": int64(s.Limit),
		"memberOf": anySlice(s.Member), "configuration": anyMap(s.Config), "comment": s.Comment,
	}
	if s.Until != nil {
		at["validUntil"] = s.Until.Format(time.RFC3339)
	}
	return at
}

// With a new owner, the objects in one database after the other are reassigned first, each in a call of its own; the
// next observation shows the rest.
func (s *roleState) deletion(newOwner *string) request {
	if newOwner == nil || len(s.DependentDatabases) == 0 {
		return request{SQL: []string{"DROP ROLE " + ident(s.Name)}}
	}
	return request{Database: s.DependentDatabases[0], SQL: []string{
		fmt.Sprintf("REASSIGN OWNED BY %s TO %s", ident(s.Name), ident(*newOwner)),
		"DROP OWNED BY " + ident(s.Name),
	}}
}
