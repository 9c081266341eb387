package ui_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
)

// accounts are the tokens that an API server accepts, with their users.
type accounts struct {
	mu      sync.Mutex
	users   map[string]string
	failure error
	logins  int
	cluster *fake
}

func (a *accounts) logIn(_ context.Context, token string) (*ui.Session, error) {
	a.mu.Lock()
	a.logins++
	a.mu.Unlock()
	user, err := a.whoHas(token)
	if err != nil {
		return nil, err
	}
	check := func(context.Context) error { _, err := a.whoHas(token); return err }
	return &ui.Session{User: user, Cluster: a.cluster, Check: check}, nil
}

func (a *accounts) whoHas(token string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != nil {
		return "", a.failure
	}
	if a.users[token] == "" {
		return "", ui.ErrRefused
	}
	return a.users[token], nil
}

func (a *accounts) revoke(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.users, token)
}

// tokenSite is a server to which viewers log in with tokens.
type tokenSite struct {
	*httptest.Server
	*accounts
	handler *ui.Server
	mu      sync.Mutex
	now     time.Time
}

func newTokenSite(t *testing.T) *tokenSite {
	t.Helper()
	s := &tokenSite{now: time.Now(), accounts: &accounts{users: map[string]string{"token-a": "alice", "token-b": "bob"}, cluster: newFake()}}
	s.handler = ui.NewServer(ui.Options{Title: "cluster", Base: "/", LogIn: s.logIn, Now: func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}})
	s.Server = httptest.NewTLSServer(s.handler)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *tokenSite) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// send sends a request with headers. Its client keeps no cookies and follows no redirect.
func (s *tokenSite) send(t *testing.T, method, path, body string, headers map[string]string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", s.URL)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func form(token string) string { return url.Values{"token": {token}}.Encode() }

func withCookie(c *http.Cookie) map[string]string {
	return map[string]string{"Cookie": c.Name + "=" + c.Value}
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// logInAs logs in and returns the cookie.
func (s *tokenSite) logInAs(t *testing.T, token string) *http.Cookie {
	t.Helper()
	response := s.send(t, http.MethodPost, "login", form(token), nil)
	if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/" || len(response.Cookies()) != 1 {
		t.Fatalf("the login answers %s %v: %s", response.Status, response.Header, text(t, response))
	}
	return response.Cookies()[0]
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// whoIs is the session, as the page is told.
func (s *tokenSite) whoIs(t *testing.T, headers map[string]string) string {
	t.Helper()
	return strings.TrimSpace(text(t, s.send(t, http.MethodGet, "api/session", "", headers)))
}

const (
	nobody = `{"title":"","loggedIn":false,"logIn":true,"logOut":false}`
	alice  = `{"title":"cluster","loggedIn":true,"user":"alice","logIn":true,"logOut":true}`
)

func TestALoginWithAToken(t *testing.T) {
	s := newTokenSite(t)
	if got := s.whoIs(t, nil); got != nobody {
		t.Errorf("without a session: %s", got)
	}
	c := s.logInAs(t, "token-a")
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") || len(c.Value) < 40 || strings.Contains(c.Value, "token") {
		t.Errorf("the cookie is %v", c)
	}
	if other := s.logInAs(t, "token-a"); other.Value == c.Value {
		t.Error("two logins have the same cookie")
	}
	if got := s.whoIs(t, withCookie(c)); got != alice {
		t.Errorf("got %s", got)
	}
	if got := s.send(t, http.MethodPost, "logout", "", withCookie(c)); got.StatusCode != http.StatusNoContent || got.Cookies()[0].MaxAge >= 0 {
		t.Errorf("the logout answers %s %v", got.Status, got.Cookies())
	}
	if got := s.whoIs(t, withCookie(c)); got != nobody {
		t.Errorf("after the logout: %s", got)
	}
}

// TestALoginAfterTheEndSaysWhyItIsNeeded: a page that was open leads here by itself.
func TestALoginAfterTheEndSaysWhyItIsNeeded(t *testing.T) {
	s := newTokenSite(t)
	for path, want := range map[string]bool{"login": false, "login?ended": true} {
		if got := strings.Contains(text(t, s.send(t, http.MethodGet, path, "", nil)), "The session has ended"); got != want {
			t.Errorf("%s: says that the session has ended: %t", path, got)
		}
	}
}

func TestANewLoginEndsTheOneOfTheSameBrowser(t *testing.T) {
	s := newTokenSite(t)
	before := s.logInAs(t, "token-a")
	s.send(t, http.MethodPost, "login", form("token-b"), withCookie(before))
	if got := s.whoIs(t, withCookie(before)); got != nobody {
		t.Errorf("got %s", got)
	}
}

func TestLoginsThatAreRefused(t *testing.T) {
	cases := map[string]struct {
		body    string
		headers map[string]string
		failure error
		want    int
		text    string
	}{
		"a token that is not accepted": {form("token-c"), nil, nil, http.StatusUnauthorized, "The API server does not accept the token"},
		"no token":                     {"", nil, nil, http.StatusUnauthorized, "This is not a token"},
		"a token of spaces, which would be anonymous": {form("  "), nil, nil, http.StatusUnauthorized, "This is not a token"},
		"a token that would be two headers":           {form("token-a\r\nImpersonate-User: root"), nil, nil, http.StatusUnauthorized, "This is not a token"},
		"a token that is too long":                    {form(strings.Repeat("a", 17<<10)), nil, nil, http.StatusUnauthorized, "This is not a token"},
		"a form that is too long":                     {form(strings.Repeat("a", 65<<10)), nil, nil, http.StatusBadRequest, "The form could not be read"},
		"a form of another site":                      {form("token-a"), map[string]string{"Origin": "https://evil.example.com"}, nil, http.StatusForbidden, "other sites"},
		"a form of a page without TLS":                {form("token-a"), map[string]string{"Origin": "http://127.0.0.1"}, nil, http.StatusForbidden, "other sites"},
		"a form without origin":                       {form("token-a"), map[string]string{"Origin": ""}, nil, http.StatusForbidden, "other sites"},
		"a form of a page without an origin":          {form("token-a"), map[string]string{"Origin": "null"}, nil, http.StatusForbidden, "other sites"},
		"an API server that does not respond":         {form("token-a"), nil, errors.New("cannot review the token: the API server does not answer"), http.StatusServiceUnavailable, "Cannot review the token"},
		"a reason that is markup":                     {form("token-a"), nil, errors.New("<b>bold</b>"), http.StatusServiceUnavailable, "&lt;b&gt;bold"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newTokenSite(t)
			s.failure = c.failure
			got := s.send(t, http.MethodPost, "login", c.body, c.headers)
			if body := text(t, got); got.StatusCode != c.want || !strings.Contains(body, c.text) {
				t.Errorf("got %s %s", got.Status, body)
			}
			if len(got.Cookies()) > 0 {
				t.Errorf("it sets %v", got.Cookies())
			}
		})
	}
}

func TestATokenInTheAddressIsNoLogin(t *testing.T) {
	s := newTokenSite(t)
	if got := s.send(t, http.MethodGet, "login?token=token-a", "", nil); len(got.Cookies()) > 0 {
		t.Errorf("it sets %v", got.Cookies())
	}
	if got := s.send(t, http.MethodPost, "login?token=token-a", "", nil); len(got.Cookies()) > 0 {
		t.Errorf("it sets %v", got.Cookies())
	}
	if s.logins > 0 {
		t.Error("the token was used")
	}
}

func TestTheFormIsForPeople(t *testing.T) {
	s := newTokenSite(t)
	page := text(t, s.send(t, http.MethodGet, "login", "", nil))
	for _, want := range []string{`<label for="token">`, `type="password"`, `<html lang="en">`, `method="post"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the form has no %s", want)
		}
	}
	if strings.Contains(page, `role="alert"`) || strings.Contains(page, "cluster of") {
		t.Errorf("the form says more than it should: %s", page)
	}
	if page = text(t, s.send(t, http.MethodPost, "login", form("token-c"), nil)); !strings.Contains(page, `role="alert"`) || !strings.Contains(page, `aria-invalid="true"`) || strings.Contains(page, "token-c") {
		t.Errorf("after a mistake: %s", page)
	}
}

func TestAttemptsToLogInAreLimited(t *testing.T) {
	s := newTokenSite(t)
	known := bearer("token-a")
	s.whoIs(t, known)
	forms, headers := 0, 0
	for range 100 {
		if s.send(t, http.MethodPost, "login", form("guess"), nil).StatusCode == http.StatusTooManyRequests {
			forms++
		}
		if s.send(t, http.MethodGet, "api/session", "", bearer("guess")).StatusCode == http.StatusTooManyRequests {
			headers++
		}
	}
	if forms == 0 || headers == 0 {
		t.Errorf("of a hundred attempts each, %d in a form and %d in a header are refused", forms, headers)
	}
	if got := s.send(t, http.MethodGet, "api/session", "", known); got.StatusCode != http.StatusOK {
		t.Errorf("the session that is there: %s", got.Status)
	}
}

func TestRequestsWithTokensOfTheirOwn(t *testing.T) {
	s := newTokenSite(t)
	want := strings.Replace(alice, `"logOut":true`, `"logOut":false`, 1)
	for range 3 {
		if got := s.whoIs(t, bearer("token-a")); got != want {
			t.Errorf("got %s", got)
		}
	}
	if s.logins != 1 {
		t.Errorf("three requests of a token are %d logins", s.logins)
	}
	// A token that is refused is not replaced by a cookie that is good.
	headers := withCookie(s.logInAs(t, "token-a"))
	maps.Copy(headers, bearer("token-c"))
	if got := s.send(t, http.MethodGet, "api/overview", "", headers); got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("got %s", got.Status)
	}
	if got := s.send(t, http.MethodGet, "api/session", "", headers); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %s", got.Status)
	}
}

func TestSessionsEndWithoutUse(t *testing.T) {
	s := newTokenSite(t)
	c := withCookie(s.logInAs(t, "token-a"))
	for range 5 {
		s.pass(29 * time.Minute)
		if got := s.whoIs(t, c); got != alice {
			t.Fatalf("one that is used: %s", got)
		}
	}
	s.pass(31 * time.Minute)
	if got := s.whoIs(t, c); got != nobody {
		t.Errorf("one that is not used: %s", got)
	}
}

func TestSessionsEndAfterTheirTime(t *testing.T) {
	s := newTokenSite(t)
	c := withCookie(s.logInAs(t, "token-a"))
	for range 23 {
		s.pass(29 * time.Minute)
		s.whoIs(t, c)
	}
	if got := s.whoIs(t, c); got != alice {
		t.Fatalf("after 11 hours: %s", got)
	}
	s.pass(29 * time.Minute)
	s.pass(29 * time.Minute)
	if got := s.whoIs(t, c); got != nobody {
		t.Errorf("after 12 hours: %s", got)
	}
}

// open opens a stream of instances.
func (s *tokenSite) open(t *testing.T, headers map[string]string) *events {
	t.Helper()
	response := s.send(t, http.MethodGet, "api/instances?kind=Shop", "", headers)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got %s", response.Status)
	}
	e := &events{t, bufio.NewScanner(response.Body)}
	if name, _ := e.next(); name != "stream" {
		t.Fatalf("first came %q", name)
	}
	return e
}

func TestStreamsEndWithTheTokenOfTheirViewer(t *testing.T) {
	for name, headers := range map[string]func(*tokenSite) map[string]string{
		"a cookie":       func(s *tokenSite) map[string]string { return withCookie(s.logInAs(t, "token-a")) },
		"a bearer token": func(*tokenSite) map[string]string { return bearer("token-a") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTokenSite(t)
			h := headers(s)
			bob := s.open(t, withCookie(s.logInAs(t, "token-b")))
			mine := s.open(t, h)
			s.pass(2 * time.Hour) // a session with an open stream is in use
			s.handler.ReviewSessions(t.Context())
			if got := s.handler.OpenStreams(); got != 2 {
				t.Fatalf("%d streams are open", got)
			}
			s.revoke("token-a")
			s.handler.ReviewSessions(t.Context())
			if got := s.handler.OpenStreams(); got != 2 {
				t.Fatalf("tokens are reviewed more often than every minute: %d streams", got)
			}
			s.pass(time.Minute)
			s.handler.ReviewSessions(t.Context())
			if name, _ := mine.next(); name != "" {
				t.Errorf("after the end came %s", name)
			}
			<-s.cluster.ended // its watches
			if got := s.send(t, http.MethodGet, "api/overview", "", h); got.StatusCode != http.StatusUnauthorized {
				t.Errorf("then: %s", got.Status)
			}
			s.cluster.instances <- nil
			if name, _ := bob.next(); name != "update" {
				t.Errorf("the stream of another viewer has %q", name)
			}
		})
	}
}

func TestARequestAfterTheTokenWasRevoked(t *testing.T) {
	s := newTokenSite(t)
	c := withCookie(s.logInAs(t, "token-a"))
	s.revoke("token-a")
	s.pass(time.Minute)
	if got := s.whoIs(t, c); got != nobody {
		t.Errorf("got %s", got)
	}
}

func TestAnAPIServerThatDoesNotRespondEndsNoSession(t *testing.T) {
	s := newTokenSite(t)
	c := withCookie(s.logInAs(t, "token-a"))
	s.failure = errors.New("no response")
	s.pass(time.Minute)
	if got := s.send(t, http.MethodGet, "api/session", "", c); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %s", got.Status)
	}
	s.failure = nil
	if got := s.whoIs(t, c); got != alice {
		t.Errorf("got %s", got)
	}
}

func TestAViewerDoesNotEndTheSessionsOfOthers(t *testing.T) {
	s := newTokenSite(t)
	bob := withCookie(s.logInAs(t, "token-b"))
	first := withCookie(s.logInAs(t, "token-a"))
	for range 16 {
		s.pass(time.Second) // the budget is not for this
		s.logInAs(t, "token-a")
	}
	if got := s.whoIs(t, first); got != nobody {
		t.Errorf("the first of seventeen: %s", got)
	}
	if got := s.whoIs(t, bob); !strings.Contains(got, "bob") {
		t.Errorf("that of another viewer: %s", got)
	}
}

func TestAllSessionsEndWithTheProgram(t *testing.T) {
	s := newTokenSite(t)
	c := withCookie(s.logInAs(t, "token-a"))
	e := s.open(t, c)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.handler.Run(ctx)
	if name, _ := e.next(); name != "" {
		t.Errorf("then came %s", name)
	}
	if got := s.whoIs(t, c); got != nobody {
		t.Errorf("got %s", got)
	}
}
