package postgresql

import (
	"time"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Keys of a connection secret for this program: the next password, when the latest one was
// generated, and the rotation token that it was generated for.
const (
	keyNext  = "nextPassword"
	keyAt    = "passwordSetAt"
	keyToken = "passwordRotation"
)

// storedPassword is a generated password in a connection secret.
//
// A new password is Next until the server has it. So the key "password" is always one that the
// server has accepted, and the Secret always has the one that is valid.
type storedPassword struct {
	Password, Next string
	Token          string
	At             time.Time
}

func parseStored(data map[string]string) storedPassword {
	at, _ := time.Parse(time.RFC3339, data[keyAt]) // an invalid time counts as long ago
	return storedPassword{Password: data["password"], Next: data[keyNext], Token: data[keyToken], At: at}
}

func formatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func (p storedPassword) latest() string {
	if p.Next != "" {
		return p.Next
	}
	return p.Password
}

// minPasswordAge is the shortest interval of rotations by age. Each rotation writes the Secret, which
// brings another reconcile: with a shorter interval, rotations would follow each other without end.
const minPasswordAge = time.Minute

func (p storedPassword) isDue(r *v1alpha1.PasswordRotation, now time.Time) bool {
	if r == nil {
		return false
	}
	isRequested := r.Token != "" && r.Token != p.Token
	return isRequested || (r.Every != nil && r.Every.Duration > 0 && now.Sub(p.At) >= max(r.Every.Duration, minPasswordAge))
}

type passwordStep struct {
	// Store is the desired content of the Secret.
	Store storedPassword
	// WaitForSecret: the Secret has to be written first. Set: set the latest password on the server. Unknown: unknown
	// whether the server has it.
	WaitForSecret, Set, Unknown bool
}

// serverHas reports whether the server has a password. After a crash, the next step follows from the Secret and the
// server alone.
func nextPasswordStep(p storedPassword, r *v1alpha1.PasswordRotation, now time.Time, generate func() string,
	serverHas func(string) external.Answer) passwordStep {
	token := ""
	if r != nil {
		token = r.Token
	}
	switch {
	case p.Password == "" && p.Next == "":
		return passwordStep{Store: storedPassword{Password: generate(), Token: token, At: now}, WaitForSecret: true}
	case p.Next == "" && p.isDue(r, now):
		p.Next, p.Token, p.At = generate(), token, now
		return passwordStep{Store: p, WaitForSecret: true}
	}
	switch serverHas(p.latest()) {
	case external.Yes:
		p.Password, p.Next = p.latest(), "" // the old one is not valid any more
		return passwordStep{Store: p}
	case external.No:
		return passwordStep{Store: p, Set: true}
	default:
	}
	return passwordStep{Store: p, Unknown: true}
}
