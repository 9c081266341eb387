package postgresql

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// request is the frozen content of a call: statements that the server carries out
// as one, or not at all. It is stored for people to read, and holds no secret.
type request struct {
	// Database is the one in which it is carried out; that of the configuration if
	// it is empty.
	Database string `json:"database,omitempty"`
	// SQL are the statements, in order. Several are one transaction; one that can't
	// be in a transaction is alone.
	SQL []string `json:"sql,omitempty"`
	// Mark is what the mark is put on, such as ROLE "app"; nothing if it is empty.
	Mark string `json:"mark,omitempty"`
	// Password is the role that is given the password of its Secret, and
	// PasswordFrom tells which that is. The password itself is read when the call is
	// made: what the Secret holds then is what is to hold on the server.
	Password     string `json:"password,omitempty"`
	PasswordFrom string `json:"passwordFrom,omitempty"`
}

func (r request) encode() external.Request {
	raw, err := json.Marshal(r)
	if err != nil {
		panic("postgresql: " + err.Error()) // texts alone
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

// statements are what is sent, as one text, which the server takes as one
// transaction.
func (r request) statements(mark external.Mark, verifier string) string {
	sql := r.SQL
	if r.Password != "" {
		sql = append(sql[:len(sql):len(sql)], "ALTER ROLE "+ident(r.Password)+" PASSWORD "+literal(verifier))
	}
	if r.Mark != "" {
		sql = append(sql[:len(sql):len(sql)], "COMMENT ON "+r.Mark+" IS "+literal(commentOf(mark)))
	}
	return strings.Join(sql, ";\n")
}
