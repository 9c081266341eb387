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

func TestWhatFollowsFromAnError(t *testing.T) {
	cases := map[string]struct {
		err   error
		class external.Class
		words string
	}{
		"a refusal is undone by the server":           {&pgconn.PgError{Severity: "ERROR", Code: "42710", Message: "role exists"}, external.Rejected, "42710: role exists"},
		"what stands in the way is named":             {&pgconn.PgError{Severity: "ERROR", Code: "2BP01", Message: "cannot be dropped", Detail: "owner of database a\nowner of table b"}, external.Rejected, "owner of database a; owner of table b"},
		"a statement that took too long":              {&pgconn.PgError{Severity: "ERROR", Code: "57014", Message: "canceling statement"}, external.Rejected, "57014"},
		"the severity counts in English":              {&pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "42710"}, external.Rejected, ""},
		"a server that is stopped may have committed": {&pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "terminating connection"}, external.Ambiguous, "57P01"},
		"so may one that says so":                     {&pgconn.PgError{Severity: "ERROR", Code: "40003"}, external.Ambiguous, ""},
		"a connection that breaks":                    {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), external.Ambiguous, "unexpected EOF"},
		"anything else":                               {errors.New("timeout"), external.Ambiguous, "timeout"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := opError(tc.err)
			if got.Class != tc.class || !strings.Contains(got.Error(), tc.words) {
				t.Errorf("it is class %d: %s", got.Class, got)
			}
		})
	}
	t.Run("what was never sent had no effect, whatever the error", func(t *testing.T) {
		if got := unsent(io.ErrUnexpectedEOF); got.Class != external.Rejected {
			t.Errorf("it is class %d", got.Class)
		}
	})
	t.Run("an error is bounded", func(t *testing.T) {
		got := opError(&pgconn.PgError{Severity: "ERROR", Detail: strings.Repeat("ä\n", 10_000)})
		if len(got.Message) > mostTold+10 {
			t.Errorf("it has %d bytes", len(got.Message))
		}
	})
}
