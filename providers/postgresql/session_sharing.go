package postgresql

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// checkNames returns an error for the first need that is not allowed, as far as that shows
// without a call of the server. Other needs are for checkOnServer.
func (sess *session) checkNames(needs []need) error {
	var pending []need
	f := facts{Roles: map[string]bool{}, Databases: map[string]bool{}}
	for _, n := range needs {
		if sess.sharing.allows(n.Allowance) || n.dependsOnServer() {
			continue
		}
		var err error
		switch {
		case n.Role != "":
			f.Roles[n.Role], err = sess.isOwned("Role", n.Role)
		case n.Database != "":
			f.Databases[n.Database], err = sess.isOwned("Database", n.Database)
		}
		if err != nil {
			return err
		}
		pending = append(pending, n)
	}
	return sess.sharing.check(pending, f)
}

// checkBeforeUse checks the needs of a managed resource before a name is reserved for it. One that is
// being deleted is still served, and adopts nothing.
func (sess *session) checkBeforeUse(needs []need, deleting bool) error {
	err := sess.checkNames(needs)
	var denied *external.NotAllowedError
	if deleting && errors.As(err, &denied) {
		if sess.sharing.Denied == "" {
			sess.sharing.Denied = denied.Message
		}
		return nil
	}
	return err
}

// A managed resource of the namespace owns the resource of the whole server. The Binding shows it: other clients can
// write the mark on the server.
func (sess *session) isOwned(typ, name string) (bool, error) {
	owner, err := sess.objects.Owner(external.Key{Scope: sess.server.scope(), Type: typ, Name: name})
	if err != nil || owner == nil {
		return false, err
	}
	return owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == typ && owner.Namespace == sess.sharing.Namespace, nil
}

// They are the owners of objects that the namespace manages; nil if the configuration allows foreign ones too.
func (sess *session) ownRoles(owners map[string]string) (map[string]bool, error) {
	if sess.sharing.allows(v1alpha1.AllowForeignRoles) {
		return nil, nil
	}
	out := map[string]bool{}
	for _, owner := range owners {
		if _, known := out[owner]; known {
			continue
		}
		var err error
		if out[owner], err = sess.isOwned("Role", owner); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (n need) dependsOnServer() bool {
	return n.Template != "" || n.Parameter != "" || n.Extension != ""
}

// checkOnServer returns an error for the first need that is not allowed. Nothing is read from the
// server unless a need depends on it.
func (sess *session) checkOnServer(ctx context.Context, needs []need) error {
	if err := sess.checkNames(needs); err != nil {
		return err
	}
	pending := slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return sess.sharing.allows(n.Allowance) || !n.dependsOnServer() })
	if len(pending) == 0 {
		return nil
	}
	f := facts{Databases: map[string]bool{}, Templates: map[string]bool{}, UserParameters: map[string]bool{}, Untrusted: map[string][]string{}}
	err := sess.read(ctx, "", func(ctx context.Context, conn *pgx.Conn) error {
		for _, n := range pending {
			if err := f.read(ctx, conn, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range pending {
		if n.Template != "" {
			if f.Databases[n.Template], err = sess.isOwned("Database", n.Template); err != nil {
				return err
			}
		}
	}
	return sess.sharing.check(pending, f)
}

// A parameter of an extension may be privileged, which shows only where the extension is loaded.
// Other names with a dot are parameters of applications. The view does not list the parameter
// role, which every user may set, to a role that the user is a member of.
const userParameterQuery = `SELECT coalesce((SELECT s.context = 'user' FROM pg_settings s WHERE lower(s.name) = $1),
	$1 = 'role' OR (strpos($1, '.') > 0 AND NOT EXISTS (SELECT FROM pg_available_extensions e WHERE lower(e.name) = split_part($1, '.', 1))))`

// untrustedQuery lists an extension and the extensions that it requires, of any version, as far as only a superuser may
// create them.
const untrustedQuery = `WITH RECURSIVE needed AS (
		SELECT v.name, v.superuser AND NOT v.trusted AS untrusted, v.requires FROM pg_available_extension_versions v WHERE v.name = $1
		UNION SELECT v.name, v.superuser AND NOT v.trusted, v.requires FROM needed n JOIN pg_available_extension_versions v ON v.name = ANY (n.requires))
	SELECT DISTINCT name::text FROM needed WHERE untrusted ORDER BY 1`

func (f facts) read(ctx context.Context, conn *pgx.Conn, n need) (err error) {
	switch {
	case n.Template != "":
		var isTemplate bool
		err = conn.QueryRow(ctx, `SELECT datistemplate FROM pg_database WHERE datname = $1`, n.Template).Scan(&isTemplate)
		f.Templates[n.Template] = err == nil && isTemplate
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
	case n.Parameter != "":
		var isUser bool
		err = conn.QueryRow(ctx, userParameterQuery, strings.ToLower(n.Parameter)).Scan(&isUser)
		f.UserParameters[n.Parameter] = isUser
	case n.Extension != "":
		rows, queryErr := conn.Query(ctx, untrustedQuery, n.Extension)
		if queryErr != nil {
			return queryErr
		}
		f.Untrusted[n.Extension], err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return err
}

// The external resource is not the managed resource's own. It is empty if the resource may be adopted.
func (sess *session) adoptionDenied(ctx context.Context, needs []need) (string, error) {
	if sess.sharing.Denied != "" {
		return sess.sharing.Denied, nil
	}
	err := sess.checkOnServer(ctx, needs)
	var denied *external.NotAllowedError
	if errors.As(err, &denied) {
		return denied.Message, nil
	}
	return "", err
}
