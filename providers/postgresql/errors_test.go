package postgresql

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestErrorsAreClassified(t *testing.T) {
	cases := map[string]struct {
		err   error
		class external.Class
		want  string
	}{
		"ERROR is rolled back":         {&pgconn.PgError{Severity: "ERROR", Code: "42710", Message: "role exists"}, external.Rejected, "42710: role exists"},
		"dependent objects are named":  {&pgconn.PgError{Severity: "ERROR", Code: "2BP01", Message: "cannot be dropped", Detail: "owner of database a\nowner of table b"}, external.Rejected, "owner of database a; owner of table b"},
		"statement timeout":            {&pgconn.PgError{Severity: "ERROR", Code: "57014", Message: "canceling statement"}, external.Rejected, "57014"},
		"localized severity":           {&pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "42710"}, external.Rejected, ""},
		"FATAL":                        {&pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "terminating connection"}, external.Ambiguous, "57P01"},
		"statement completion unknown": {&pgconn.PgError{Severity: "ERROR", Code: "40003"}, external.Ambiguous, ""},
		"broken connection":            {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), external.Ambiguous, "unexpected EOF"},
		"any other error":              {errors.New("timeout"), external.Ambiguous, "timeout"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := opError(tc.err)
			if got.Class != tc.class || !strings.Contains(got.Error(), tc.want) {
				t.Errorf("got class %d: %s", got.Class, got)
			}
		})
	}
	t.Run("an error before the statements are sent", func(t *testing.T) {
		if got := notSentError(io.ErrUnexpectedEOF); got.Class != external.Rejected {
			t.Errorf("got class %d", got.Class)
		}
	})
	t.Run("a long message is truncated", func(t *testing.T) {
		got := opError(&pgconn.PgError{Severity: "ERROR", Detail: strings.Repeat("ä\n", 10_000)})
		if len(got.Message) > maxText+10 {
			t.Errorf("the message has %d bytes", len(got.Message))
		}
	})
}
