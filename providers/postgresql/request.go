package postgresql

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// request is the content of a call: the statements of one transaction. It is stored in the
// Binding, where users can read it, and contains no secret.
type request struct {
	// Database is the database of the call; if empty, the configuration's.
	Database string `json:"database,omitempty"`
	// SQL are the statements, in order. A statement that cannot be in a transaction is the
	// only one.
	SQL []string `json:"sql,omitempty"`
	// Mark is the object that gets the mark, such as ROLE "app"; empty for none.
	Mark string `json:"mark,omitempty"`
	// Password is the role that gets the password, and PasswordFrom describes the Secret with it. The password itself
	// is read from the Secret when the call is made.
	Password     string `json:"password,omitempty"`
	PasswordFrom string `json:"passwordFrom,omitempty"`
	// PasswordSetAt is when a generated password was generated: the next rotation is another
	// request, and not the same one again because the password was changed back.
	PasswordSetAt string `json:"passwordSetAt,omitempty"`
}

func (r request) encode() external.Request {
	raw, err := json.Marshal(r)
	if err != nil {
		panic("postgresql: " + err.Error()) // strings cannot fail
	}
	return raw
}

func decode(raw external.Request) (request, error) {
	var r request
	if err := json.Unmarshal(raw, &r); err != nil {
		return request{}, fmt.Errorf("read the request: %w", err)
	}
	return r, nil
}

// The server executes the text in one transaction.
func (r request) statements(mark external.Mark, verifier string) string {
	sql := r.SQL
	if r.Password != "" {
		sql = append(sql[:len(sql):len(sql)], "ALTER ROLE "+ident(r.Password)+" PASSWORD "+literal(verifier))
	}
	if r.Mark != "" {
		sql = append(sql[:len(sql):len(sql)], "COMMENT ON "+r.Mark+" IS "+literal(formatMark(mark)))
	}
	return strings.Join(sql, ";\n")
}
