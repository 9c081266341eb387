package postgresql

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
)

// in is where something is that is in a database.
func in(database *string, name string) (string, string, error) {
	if database == nil {
		return "", "", errors.New("spec.forProvider.database isn't set")
	}
	if err := checkName("spec.forProvider.database", *database); err != nil {
		return "", "", err
	}
	return *database, name, checkName("the name", name)
}

// inside looks at something in a database. What is in a database that isn't there
// isn't there either.
func (v *visit) inside(ctx context.Context, database string, look func(context.Context, *pgx.Conn) error) error {
	err := v.on(ctx, database, look)
	var connecting *connectError
	if database != v.server.Database && errors.As(err, &connecting) && isCode(err, noSuchDatabase) {
		return nil
	}
	return err
}

// cascading is the end of a DROP.
func cascading(d v1alpha1.Dependents) string {
	if d == v1alpha1.DependentsCascade {
		return " CASCADE"
	}
	return ""
}
