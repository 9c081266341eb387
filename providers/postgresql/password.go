package postgresql

import (
	"time"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Keys of a connection secret that are for this program: which password comes next,
// when the latest one was made, and for which request to rotate.
const (
	keyNext  = "nextPassword"
	keyAt    = "passwordSetAt"
	keyToken = "passwordRotation"
)

// kept is what a connection secret keeps of a generated password.
//
// A password that replaces another is Next until the server has it: what others read
// as the password is at no time one that the server was never asked to take, and
// whichever of the two the server has, the Secret has it too.
type kept struct {
	Password, Next string
	Token          string
	At             time.Time
}

func keptIn(data map[string]string) kept {
	at, _ := time.Parse(time.RFC3339, data[keyAt]) // one that can't be read is long ago
	return kept{Password: data["password"], Next: data[keyNext], Token: data[keyToken], At: at}
}

// latest is the password that the server is to have.
func (k kept) latest() string {
	if k.Next != "" {
		return k.Next
	}
	return k.Password
}

// due says whether another password is due.
func (k kept) due(r *v1alpha1.PasswordRotation, now time.Time) bool {
	if r == nil {
		return false
	}
	asked := r.Token != "" && r.Token != k.Token
	return asked || (r.Every != nil && r.Every.Duration > 0 && now.Sub(k.At) >= r.Every.Duration)
}

// turn is what follows for a password.
type turn struct {
	// Keep is what the Secret is to hold.
	Keep kept
	// Waits says that nothing is to be set before the Secret holds it, Set that the
	// server is to be given the latest, Unknown that it can't be told.
	Waits, Set, Unknown bool
}

// nextTurn decides about a generated password. Is says whether the server has a
// password. Each turn is such that a crash after it leaves what the next one needs
// in the Secret and on the server.
func nextTurn(k kept, r *v1alpha1.PasswordRotation, now time.Time, fresh func() string, is func(string) external.Answer) turn {
	token := ""
	if r != nil {
		token = r.Token
	}
	switch {
	case k.Password == "" && k.Next == "":
		return turn{Keep: kept{Password: fresh(), Token: token, At: now}, Waits: true}
	case k.Next == "" && k.due(r, now):
		k.Next, k.Token, k.At = fresh(), token, now
		return turn{Keep: k, Waits: true}
	}
	switch is(k.latest()) {
	case external.Yes:
		k.Password, k.Next = k.latest(), "" // the old one opens nothing any more
		return turn{Keep: k}
	case external.No:
		return turn{Keep: k, Set: true}
	default:
	}
	return turn{Keep: k, Unknown: true}
}
