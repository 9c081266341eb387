package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// token remembers which operation a caller's token has started.
type token struct {
	Scope string `json:"scope"`
	Type  Type   `json:"type"`
	Token string `json:"token"`
	// Print is the fingerprint of the request that brought it.
	Print     string    `json:"print"`
	Operation int64     `json:"operation"`
	Expires   time.Time `json:"expires"`
}

func (t token) id() string { return string(t.Type) + " " + strconv.Quote(t.Scope) + " " + t.Token }

// replay finds the operation that a request has started before, if its token is
// honoured. It refuses a token that came with another request.
func (w *world) replay(q request, now time.Time) (job, bool, error) {
	if q.Token == "" || w.behaviour(q.Key.Type).TokenTTL == 0 {
		return job{}, false, nil
	}
	t, ok := w.tokens.rows[token{Scope: q.Key.Scope, Type: q.Key.Type, Token: q.Token}.id()]
	if !ok || !now.Before(t.Expires) {
		return job{}, false, nil
	}
	if t.Print != q.print() {
		return job{}, false, refuse(IdempotencyMismatch, "token %q came before, with another request", q.Token)
	}
	return w.operations.rows[jobID(t.Operation)], true, nil
}

// remember keeps the request's token, and its operation for as long.
func (w *world) remember(q request, j job, now time.Time) {
	ttl := w.behaviour(q.Key.Type).TokenTTL
	if q.Token == "" || ttl == 0 {
		return
	}
	expires := now.Add(ttl)
	w.tokens.put(token{
		Scope: q.Key.Scope, Type: q.Key.Type, Token: q.Token, Print: q.print(), Operation: j.Number, Expires: expires,
	})
	if j.Forget.Before(expires) {
		j.Forget = expires
		w.operations.put(j)
	}
}

// print is the request's fingerprint: everything in it, in one order.
func (q request) print() string {
	text, err := json.Marshal(q)
	if err != nil {
		panic(err) // it is strings, numbers and maps of strings
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
