package ui

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/espalier-dev/espalier/internal/program/manager/access"
)

// checkInterval is how often the token of a viewer who is there is reviewed: one that was revoked is good for no longer.
const checkInterval = time.Minute

// errTooFast says that a token was not sent to the API server.
var errTooFast = errors.New("too many attempts to log in; try again in a few seconds")

// tokens are the logins with tokens.
type tokens struct {
	key     []byte // of the ids of sessions that belong to a token
	budget  *access.Budget
	flights *singleflight.Group // a page begins with several requests
}

func newTokens(now func() time.Time) tokens {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never returns an error
	return tokens{key: key, budget: access.NewBudget(now), flights: &singleflight.Group{}}
}

// id is the id of the session of a token. Nobody who does not have the key can find it.
func (t tokens) id(token string) string {
	h := hmac.New(sha256.New, t.key)
	h.Write([]byte(token))
	return "token " + hex.EncodeToString(h.Sum(nil))
}

// refuse answers with the reason of an error, which is for people.
func refuse(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, err.Error(), status)
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrRefused):
		return http.StatusUnauthorized
	case errors.Is(err, errTooFast), errors.Is(err, errTooMany):
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// begin begins a session with a token, unless too many were tried.
func (s *Server) begin(r *http.Request, token, id string) (*Session, string, error) {
	address := access.Address(r)
	if !s.tokens.budget.Allow(address) {
		return nil, "", errTooFast
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), tokenReviewLimit) // others may wait for it
	defer cancel()
	session, err := s.options.LogIn(ctx, token)
	if err != nil {
		s.options.Log.V(1).Info("refused a login", "address", address, "reason", err.Error())
		return nil, "", err
	}
	session.fixedID = id
	id, err = s.sessions.add(session)
	if err == nil {
		s.options.Log.Info("a viewer has logged in", "user", session.User, "address", address)
	}
	return session, id, err
}

// sessionOfToken returns the session of a request that has a token, as those of a proxy have; it begins with the first one.
func (s *Server) sessionOfToken(r *http.Request, token string) (*Session, error) {
	if err := access.CheckToken(token); err != nil {
		return nil, ErrRefused
	}
	id := s.tokens.id(token)
	result, err, _ := s.tokens.flights.Do(id, func() (any, error) {
		if session := s.sessions.find(id); session != nil {
			return session, s.checkAgain(context.WithoutCancel(r.Context()), id, session)
		}
		session, _, err := s.begin(r, token, id)
		return session, err
	})
	if err != nil {
		return nil, err
	}
	return result.(*Session), nil
}

// checkAgain ends a session whose token is not accepted any more.
func (s *Server) checkAgain(ctx context.Context, id string, session *Session) error {
	if !s.sessions.due(session) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenReviewLimit)
	defer cancel()
	err := session.Check(ctx)
	if errors.Is(err, ErrRefused) {
		s.sessions.logOut(id)
		s.options.Log.Info("a session has ended: its token is no longer accepted", "user", session.User)
	}
	if err == nil {
		s.sessions.passed(session)
	}
	return err
}

// Run ends sessions whose time is up, or whose tokens are not accepted any more, until the context ends; then it ends all of them.
func (s *Server) Run(ctx context.Context) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	defer s.sessions.logOutAll()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.ReviewSessions(ctx)
		}
	}
}

// ReviewSessions ends sessions as Run does, once. Tokens of sessions without an open stream are reviewed with their next request.
func (s *Server) ReviewSessions(ctx context.Context) {
	var checks sync.WaitGroup
	for id, session := range s.sessions.watching() {
		checks.Go(func() { _ = s.checkAgain(ctx, id, session) }) // it ends the session, or tries again
	}
	checks.Wait()
}

// loginPage is the page to log in, with a problem or without one.
var loginPage = template.Must(template.ParseFS(assets, "assets/login.html"))

// showLoginPage shows the form. A page whose session has ended leads to it, and says so with the query.
func showLoginPage(w http.ResponseWriter, r *http.Request) {
	problem := ""
	if r.URL.Query().Has("ended") {
		problem = "The session has ended, or the API server no longer accepts its token. Log in again, with a new token if that one has expired."
	}
	writeLoginPage(w, http.StatusOK, problem)
}

func writeLoginPage(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = loginPage.Execute(w, struct{ Problem string }{problem}) // the viewer may have left
}

// logInWithToken begins a session with the token of the form.
func (s *Server) logInWithToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		writeLoginPage(w, http.StatusBadRequest, "The form could not be read: it may be too long.")
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	if err := access.CheckToken(token); err != nil || strings.ContainsFunc(token, isNotOfToken) {
		writeLoginPage(w, http.StatusUnauthorized, "This is not a token: it is empty, too long, or has characters that no token has.")
		return
	}
	_, id, err := s.begin(r, token, "")
	if err != nil {
		writeLoginPage(w, statusOf(err), sentence(err))
		return
	}
	if before, err := r.Cookie(s.cookieName()); err == nil {
		s.sessions.logOut(before.Value)
	}
	s.setCookie(w, id)
	http.Redirect(w, r, s.options.Base, http.StatusSeeOther)
}

// isNotOfToken reports whether a header with a character would not be one.
func isNotOfToken(r rune) bool { return r <= ' ' || r > '~' }

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
