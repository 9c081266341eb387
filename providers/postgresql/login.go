package postgresql

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// passwordCheck returns a function that reports whether a role has a password: by the stored
// verifier, if it is readable, or else by a login.
func (sess *session) passwordCheck(ctx context.Context, s *roleState) func(string) external.Answer {
	return func(password string) external.Answer {
		if s.Readable {
			if ok, err := verifies(s.Stored, s.Name, password); ok && err == nil {
				return external.Yes
			}
			return external.No // an unknown kind of verifier is not one of ours either
		}
		if s.Until != nil && s.Until.Before(sess.servers.options.Now()) {
			return external.CannotTell // every login fails
		}
		answer := sess.tryLogin(ctx, s.Name, password)
		if answer == external.Yes && sess.tryLogin(ctx, s.Name, newPassword()) == external.Yes {
			return external.CannotTell // the server requires no password
		}
		return answer
	}
}

// tryLogin tries to log in with a password.
func (sess *session) tryLogin(ctx context.Context, role, password string) external.Answer {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	as := sess.server
	as.User, as.Password, as.Cert, as.Key = role, password, "", ""
	var conn *pgx.Conn
	err := sess.servers.withSlot(ctx, as, func() (err error) {
		conn, err = as.dial(ctx, as.Database)
		return err
	})
	switch {
	case err == nil:
		_ = conn.Close(ctx) // nothing was done on it
		return external.Yes
	case hasCode(err, invalidPassword):
		return external.No
	}
	return external.CannotTell
}
