package postgresql

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// SQLSTATEs that something follows from.
const (
	invalidPassword   = "28P01"
	noSuchDatabase    = "3D000"
	objectInUse       = "55006"
	dependentsExist   = "2BP01"
	completionUnknown = "40003"
)

// opError says what follows from an error of the statements of a call. What the
// server answers by an ERROR it has undone. A connection that breaks tells nothing,
// and nor does a FATAL: a server that is stopped says so also when it has committed.
func opError(err error) *external.OpError {
	var answer *pgconn.PgError
	switch {
	case !errors.As(err, &answer):
		return &external.OpError{Class: external.Ambiguous, Message: brief(err.Error())}
	case severity(answer) != "ERROR" || answer.Code == completionUnknown:
		return &external.OpError{Class: external.Ambiguous, Code: answer.Code, Message: told(answer)}
	}
	return &external.OpError{Class: external.Rejected, Code: answer.Code, Message: told(answer)}
}

// unsent is an error before anything was sent that changes something.
func unsent(err error) *external.OpError {
	out := &external.OpError{Class: external.Rejected, Message: brief(err.Error())}
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		out.Code = answer.Code
	}
	return out
}

// severity is in English, whatever the server's language; older servers don't say.
func severity(e *pgconn.PgError) string {
	if e.SeverityUnlocalized != "" {
		return e.SeverityUnlocalized
	}
	return e.Severity
}

// told is what the server says, with what it names as standing in the way. The
// server's own messages quote no statement: that is in fields that aren't told.
func told(e *pgconn.PgError) string {
	text := e.Message
	if e.Detail != "" {
		text += ": " + strings.ReplaceAll(strings.TrimSpace(e.Detail), "\n", "; ")
	}
	return brief(text)
}

// isCode says whether the server has answered with a SQLSTATE.
func isCode(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}
