package postgresql

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// maxSessions is how many sessions an error names.
const maxSessions = 5

// hints tell what a user can do about a deletion that is refused, by type.
var hints = map[string]string{
	"Role":      "set spec.forProvider.reassignOwnedTo to make another role the owner of its objects",
	"Database":  "set spec.forProvider.onDelete: Force to terminate the sessions",
	"Schema":    "set spec.forProvider.onDelete: Cascade to delete these with it",
	"Extension": "set spec.forProvider.onDelete: Cascade to delete these with it",
}

// explain adds to the error of a refused deletion what the server does not report: the open
// sessions of a database, and what a user can do.
func (sess *session) explain(ctx context.Context, e *external.OpError, i external.Intent) *external.OpError {
	if i.Verb != external.Delete || e.Class != external.Rejected {
		return e
	}
	if e.Code == objectInUse {
		var names []string
		err := sess.read(ctx, "", func(ctx context.Context, conn *pgx.Conn) (err error) {
			names, err = listSessions(ctx, conn, i.Key.Name)
			return err
		})
		if err == nil && len(names) > 0 {
			e.Message += ": sessions of " + strings.Join(names, ", ")
		}
	}
	if i.Key.Type == "Database" && e.Code == wrongObjectType {
		e.Message += ". set spec.forProvider.isTemplate: false to make it an ordinary database, which is then deleted"
	}
	if hint := hints[i.Key.Type]; hint != "" && (e.Code == dependentsExist || e.Code == objectInUse) {
		e.Message += ". " + hint
	}
	return e
}

func listSessions(ctx context.Context, conn *pgx.Conn, database string) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT coalesce(usename, backend_type), coalesce(nullif(application_name, ''), '-'), pid
		FROM pg_stat_activity WHERE datname = $1 ORDER BY backend_start, pid LIMIT $2`, database, maxSessions)
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
