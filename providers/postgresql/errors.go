package postgresql

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// SQLSTATEs that are handled.
const (
	invalidPassword   = "28P01"
	noSuchDatabase    = "3D000"
	objectInUse       = "55006"
	dependentsExist   = "2BP01"
	wrongObjectType   = "42809"
	completionUnknown = "40003"
)

// opError classifies an error of a call. With an ERROR, the server has rolled the transaction
// back. After a broken connection or a FATAL the outcome is unknown: a server that is shut down
// sends FATAL even if it has committed.
func opError(err error) *external.OpError {
	var answer *pgconn.PgError
	switch {
	case !errors.As(err, &answer):
		return &external.OpError{Class: external.Ambiguous, Message: truncate(err.Error())}
	case severity(answer) != "ERROR" || answer.Code == completionUnknown:
		return &external.OpError{Class: external.Ambiguous, Code: answer.Code, Message: messageOf(answer)}
	}
	return &external.OpError{Class: external.Rejected, Code: answer.Code, Message: messageOf(answer)}
}

// No statement of the call was sent.
func notSentError(err error) *external.OpError {
	out := &external.OpError{Class: external.Rejected, Message: truncate(err.Error())}
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		out.Code = answer.Code
	}
	return out
}

// severity returns the severity in English. Old servers only send it in their own language.
func severity(e *pgconn.PgError) string {
	if e.SeverityUnlocalized != "" {
		return e.SeverityUnlocalized
	}
	return e.Severity
}

// messageOf returns the message and its details, which name dependent objects. Other fields
// may quote the statement, and so a secret.
func messageOf(e *pgconn.PgError) string {
	text := e.Message
	if e.Detail != "" {
		text += ": " + strings.ReplaceAll(strings.TrimSpace(e.Detail), "\n", "; ")
	}
	return truncate(text)
}

func hasCode(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}
