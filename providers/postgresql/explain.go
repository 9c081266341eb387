package postgresql

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// mostSessions is how many of the sessions that are in the way are named.
const mostSessions = 5

// ways are what a user can do about what stands in the way of a deletion, by type.
var ways = map[string]string{
	"Role":      "spec.forProvider.reassignOwnedTo gives what it owns to another role",
	"Database":  "spec.forProvider.onDelete: Force ends the sessions",
	"Schema":    "spec.forProvider.onDelete: Cascade deletes these with it",
	"Extension": "spec.forProvider.onDelete: Cascade deletes these with it",
}

// explained adds to a refusal what the server doesn't say of its own: whose sessions
// keep a database, and what a user can do about dependents.
func (v *visit) explained(ctx context.Context, e *external.OpError, i external.Intent) *external.OpError {
	if i.Verb != external.Delete || e.Class != external.Rejected {
		return e
	}
	if e.Code == objectInUse {
		var names []string
		err := v.on(ctx, "", func(ctx context.Context, conn *pgx.Conn) (err error) {
			names, err = sessionsIn(ctx, conn, i.Key.Name)
			return err
		})
		if err == nil && len(names) > 0 {
			e.Message += ": sessions of " + strings.Join(names, ", ")
		}
	}
	if way := ways[i.Key.Type]; way != "" && (e.Code == dependentsExist || e.Code == objectInUse) {
		e.Message += ". " + way
	}
	return e
}

// sessionsIn names those who are in a database.
func sessionsIn(ctx context.Context, conn *pgx.Conn, database string) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT coalesce(usename, backend_type), coalesce(nullif(application_name, ''), '-'), pid
		FROM pg_stat_activity WHERE datname = $1 ORDER BY backend_start, pid LIMIT $2`, database, mostSessions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var user, application string
		var pid int32
		err := row.Scan(&user, &application, &pid)
		return fmt.Sprintf("%s (%s, process %d)", user, application, pid), err
	})
}
