package ui

import (
	"context"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/program/manager/access"
)

//go:embed assets
var assets embed.FS

// Options configure a Server.
type Options struct {
	// Title names the cluster, for people.
	Title string
	// Secret is what the address that is printed contains; who has it is the Viewer.
	Secret string
	Viewer func() (*Session, error)
	// LogIn, if given, replaces Secret and Viewer: it begins a session of whoever has a token. The server must be behind TLS then, and
	// Run must run.
	LogIn func(ctx context.Context, token string) (*Session, error)
	// Base is the path below which everything is served, with slashes around it.
	Base string
	// IsHost reports whether a request's Host is the server's; nil if every one is.
	IsHost func(host string) bool
	// Now returns the time; time.Now by default.
	Now func() time.Time
	// Log gets who logs in.
	Log logr.Logger
}

// Server serves the pages. It is an http.Handler.
type Server struct {
	options  Options
	mux      *http.ServeMux
	sessions *sessions
	open     atomic.Int64
	tokens   tokens
}

// NewServer returns a server.
func NewServer(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{options: o, mux: http.NewServeMux(), sessions: &sessions{now: o.Now, all: map[string]*Session{}}}
	for _, name := range []string{"", "app.js", "dom.js", "lists.js", "object.js", "graph.js", "lib/preact.js", "style.css", "icon.svg"} {
		s.mux.HandleFunc("GET "+o.Base+name+exact(name), s.asset(name))
	}
	if o.LogIn != nil {
		s.tokens = newTokens(o.Now)
		s.mux.HandleFunc("GET "+o.Base+"login", showLoginPage)
		s.mux.HandleFunc("POST "+o.Base+"login", s.logInWithToken)
	} else {
		s.mux.HandleFunc("GET "+o.Base+"login", s.logInWithSecret)
	}
	s.mux.HandleFunc("POST "+o.Base+"logout", s.logOut)
	s.mux.HandleFunc("POST "+o.Base+"api/window", s.withSession(s.moveWindow))
	s.mux.HandleFunc("GET "+o.Base+"api/session", s.describeSession)
	for name, view := range views {
		s.mux.HandleFunc("GET "+o.Base+"api/"+name, s.withSession(s.serveStream(view)))
	}
	return s
}

// exact ends the pattern of a path that ends in a slash.
func exact(name string) string {
	if name == "" {
		return "{$}"
	}
	return ""
}

// OpenStreams is the number of streams that are open.
func (s *Server) OpenStreams() int { return int(s.open.Load()) }

// policy lets a page load what this server serves, and nothing else, and run no script but those.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if s.options.LogIn != nil {
		h.Set("Referrer-Policy", "same-origin") // without a referrer, a form has no origin. No address has a secret.
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(writeLimit)) // of streams, each write has one of its own; writers of tests have none
	if r.Method != http.MethodGet {
		_ = control.SetReadDeadline(time.Now().Add(readLimit)) // the same
	}
	switch {
	case s.options.IsHost != nil && !s.options.IsHost(r.Host):
		http.Error(w, "this server does not serve that host", http.StatusMisdirectedRequest)
	case !s.isSameOrigin(r):
		http.Error(w, "requests of other sites are refused", http.StatusForbidden)
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		s.mux.ServeHTTP(w, r)
	}
}

// isSameOrigin reports whether a request comes from a page of this server, or from the viewer. A page of another one may only link to
// the first page.
func (s *Server) isSameOrigin(r *http.Request) bool {
	scheme := "http://"
	if s.options.LogIn != nil {
		scheme = "https://"
	}
	origin := r.Header.Get("Origin")
	if origin != "" && origin != scheme+r.Host || origin == "" && r.Method != http.MethodGet {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.URL.Path == s.options.Base
}

func (s *Server) asset(name string) http.HandlerFunc {
	if name == "" {
		name = "index.html"
	}
	raw, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("ui: " + err.Error()) // they are part of the program
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".js" {
		kind = "text/javascript; charset=utf-8"
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(raw) // the viewer may have left
	}
}

// cookieName is the name of the cookie. Behind TLS, its prefix lets browsers refuse one that another host or a connection without TLS sets.
func (s *Server) cookieName() string {
	if s.options.LogIn != nil {
		return "__Host-espalier"
	}
	return "espalier"
}

func (s *Server) setCookie(w http.ResponseWriter, id string) {
	cookie := &http.Cookie{Name: s.cookieName(), Value: id, Path: s.options.Base, HttpOnly: true, Secure: s.options.LogIn != nil,
		SameSite: http.SameSiteStrictMode}
	if id == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// sessionOf returns the session of a request, with its id if it is that of a cookie; nil if it has none. A request with a token of its
// own has the session of that token, or a refusal: its cookie does not count.
func (s *Server) sessionOf(r *http.Request) (session *Session, id string, err error) {
	if token := access.BearerToken(r); token != "" && s.options.LogIn != nil {
		session, err = s.sessionOfToken(r, token)
		return session, "", err
	}
	cookie, err := r.Cookie(s.cookieName())
	if err != nil {
		return nil, "", nil // there is none
	}
	session = s.sessions.find(cookie.Value)
	if session == nil {
		return nil, "", nil
	}
	if err := s.checkAgain(r.Context(), cookie.Value, session); err != nil {
		return nil, "", err
	}
	return session, cookie.Value, nil
}

func (s *Server) withSession(serve func(http.ResponseWriter, *http.Request, *Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session, _, err := s.sessionOf(r)
		switch {
		case err != nil:
			refuse(w, err)
		case session == nil:
			http.Error(w, "there is no session, or it has ended", http.StatusUnauthorized)
		default:
			serve(w, r, session)
		}
	}
}

// logInWithSecret exchanges the secret for a session.
func (s *Server) logInWithSecret(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(s.options.Secret)) != 1 {
		http.Error(w, "the address is not the one that espalier ui has printed", http.StatusForbidden)
		return
	}
	session, err := s.options.Viewer()
	if err != nil {
		http.Error(w, "cannot connect to the cluster", http.StatusServiceUnavailable)
		return
	}
	id, err := s.sessions.add(session)
	if err != nil {
		refuse(w, err)
		return
	}
	s.setCookie(w, id)
	http.Redirect(w, r, s.options.Base, http.StatusSeeOther) // the secret does not stay in the address bar
}

// logOut ends the session of a cookie, also one whose token is no longer accepted.
func (s *Server) logOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(s.cookieName()); err == nil {
		s.sessions.logOut(cookie.Value)
	}
	s.setCookie(w, "")
	w.WriteHeader(http.StatusNoContent)
}

// describeSession says whether there is a session, and of whom.
func (s *Server) describeSession(w http.ResponseWriter, r *http.Request) {
	out := struct {
		Title    string `json:"title"`
		LoggedIn bool   `json:"loggedIn"`
		User     string `json:"user,omitempty"`
		// LogIn and LogOut say whether there is a page to log in with a token, and a session that can be ended.
		LogIn  bool `json:"logIn"`
		LogOut bool `json:"logOut"`
		// Sections have pages of their own.
		Sections []string `json:"sections,omitempty"`
	}{LogIn: s.options.LogIn != nil}
	session, id, err := s.sessionOf(r)
	if err != nil && !errors.Is(err, ErrRefused) || err != nil && access.BearerToken(r) != "" {
		refuse(w, err)
		return
	}
	if session != nil {
		out.Title, out.LoggedIn, out.User, out.LogOut, out.Sections = s.options.Title, true, session.User, id != "", session.Sections()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the viewer may have left
}

// moveWindow changes which rows a stream of a list sends.
func (s *Server) moveWindow(w http.ResponseWriter, r *http.Request, session *Session) {
	var window page.Window
	if err := json.NewDecoder(r.Body).Decode(&window); err != nil {
		http.Error(w, "the body is not a window", http.StatusBadRequest)
		return
	}
	st := s.sessions.stream(session, r.URL.Query().Get("stream"))
	if st == nil {
		http.Error(w, "there is no such stream", http.StatusNotFound)
		return
	}
	st.move(window)
	w.WriteHeader(http.StatusNoContent)
}

// refOf reads the reference in the query of a request.
func refOf(r *http.Request) Ref {
	q := r.URL.Query()
	return Ref{GroupKind: schema.GroupKind{Group: q.Get("group"), Kind: q.Get("kind")}, Namespace: q.Get("namespace"), Name: q.Get("name")}
}

// IsLoopback reports whether a host with a port is one of this machine and has the port of an address: another name that resolves to
// this machine belongs to another owner.
func IsLoopback(address net.Addr) func(host string) bool {
	_, want, _ := net.SplitHostPort(address.String())
	return func(hostport string) bool {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil || port != want {
			return false
		}
		ip := net.ParseIP(host)
		return host == "localhost" || ip != nil && ip.IsLoopback()
	}
}
