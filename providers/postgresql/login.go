package postgresql

import (
	"bytes"
	"context"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

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

// tryLogin reports whether the server accepts a password. It may refuse the session after that: a role often is not
// allowed to connect to the configuration's database, or has all its connections in use.
func (sess *session) tryLogin(ctx context.Context, role, password string) external.Answer {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	as := sess.server
	as.User, as.Password, as.Cert, as.Key = role, password, "", ""
	var isAccepted acceptance
	err := sess.servers.withSlot(ctx, as, func() error {
		c, err := as.connConfig(as.Database)
		if err != nil {
			return err
		}
		build := c.BuildFrontend
		c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			f := build(r, w)
			f.Trace(&isAccepted, pgproto3.TracerOptions{SuppressTimestamps: true})
			return f
		}
		conn, err := pgx.ConnectConfig(ctx, c)
		if err == nil {
			_ = conn.Close(ctx) // nothing was done on it
		}
		return err
	})
	switch {
	case err == nil || bool(isAccepted):
		return external.Yes
	case hasCode(err, invalidPassword):
		return external.No
	}
	return external.CannotTell
}

// acceptance is set by the trace of a connection once the server has accepted the password. Each
// message is one write: its sender, B for the server, and its type, separated by tabs.
type acceptance bool

func (a *acceptance) Write(message []byte) (int, error) {
	if bytes.HasPrefix(message, []byte("B\tAuthenticationOk\t")) {
		*a = true
	}
	return len(message), nil
}
