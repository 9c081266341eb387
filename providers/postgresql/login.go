package postgresql

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// has says whether the server has a password for a role: by what it stores, if that
// can be read, or else by logging in.
func (v *visit) has(ctx context.Context, s *roleState) func(string) external.Answer {
	return func(password string) external.Answer {
		if s.Readable {
			if ok, err := verifies(s.Stored, s.Name, password); ok && err == nil {
				return external.Yes
			}
			return external.No // also of a kind that isn't known: then it isn't ours
		}
		if s.Until != nil && s.Until.Before(time.Now()) {
			return external.CannotTell // it fails whatever the password is
		}
		answer := v.login(ctx, s.Name, password)
		if answer == external.Yes && v.login(ctx, s.Name, newPassword()) == external.Yes {
			return external.CannotTell // the server asks for none
		}
		return answer
	}
}

// login tries to log in.
func (v *visit) login(ctx context.Context, role, password string) external.Answer {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	as := v.server
	as.User, as.Password, as.Cert, as.Key = role, password, "", ""
	var conn *pgx.Conn
	err := v.servers.turn(ctx, as, func() (err error) {
		conn, err = as.dial(ctx, as.Database)
		return err
	})
	switch {
	case err == nil:
		_ = conn.Close(ctx) // nothing was done on it
		return external.Yes
	case isCode(err, invalidPassword):
		return external.No
	}
	return external.CannotTell
}
