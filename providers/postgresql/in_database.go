package postgresql

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

func inDatabase(database *string, name string) (string, string, error) {
	if database == nil {
		return "", "", errors.New("spec.forProvider.database is not set")
	}
	if err := checkName("spec.forProvider.database", *database); err != nil {
		return "", "", err
	}
	return *database, name, checkName("the name", name)
}

// readIn reads from a database. If the database does not exist, do is not called: no resource
// exists in it either.
func (sess *session) readIn(ctx context.Context, database string, do func(context.Context, *pgx.Conn) error) error {
	err := sess.read(ctx, database, do)
	var connecting *connectError
	if database != sess.server.Database && errors.As(err, &connecting) && hasCode(err, noSuchDatabase) {
		return nil
	}
	return err
}

func cascadeClause(d v1alpha1.Dependents) string {
	if d == v1alpha1.DependentsCascade {
		return " CASCADE"
	}
	return ""
}
