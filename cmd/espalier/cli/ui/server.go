package ui

import (
	"crypto/subtle"
	"embed"
	"encoding/json"
	"mime"
	"net"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/observe/page"
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
	// Base is the path below which everything is served, with slashes around it.
	Base string
	// IsHost reports whether a request's Host is the server's; nil if every one is.
	IsHost func(host string) bool
	// Now returns the time; time.Now by default.
	Now func() time.Time
}

// Server serves the pages. It is an http.Handler.
type Server struct {
	options  Options
	mux      *http.ServeMux
	sessions *sessions
	open     atomic.Int64
}

// NewServer returns a server.
func NewServer(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{options: o, mux: http.NewServeMux(), sessions: &sessions{now: o.Now, all: map[string]*Session{}}}
	for _, name := range []string{"", "app.js", "dom.js", "lists.js", "graph.js", "style.css", "icon.svg"} {
		s.mux.HandleFunc("GET "+o.Base+name+exact(name), s.asset(name))
	}
	s.mux.HandleFunc("GET "+o.Base+"login", s.logInWithSecret)
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
	h.Set("Cache-Control", "no-store")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
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
	origin := r.Header.Get("Origin")
	if origin != "" && origin != "http://"+r.Host || origin == "" && r.Method != http.MethodGet {
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

// cookieName is the name of the cookie.
const cookieName = "espalier"

func (s *Server) setCookie(w http.ResponseWriter, id string) {
	cookie := &http.Cookie{Name: cookieName, Value: id, Path: s.options.Base, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if id == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// sessionOf returns the session of a request; nil if it has none.
func (s *Server) sessionOf(r *http.Request) (session *Session, id string) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil, ""
	}
	return s.sessions.find(cookie.Value), cookie.Value
}

func (s *Server) withSession(serve func(http.ResponseWriter, *http.Request, *Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session, _ := s.sessionOf(r)
		if session == nil {
			http.Error(w, "there is no session, or it has ended", http.StatusUnauthorized)
			return
		}
		serve(w, r, session)
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
	s.setCookie(w, s.sessions.add(session))
	http.Redirect(w, r, s.options.Base, http.StatusSeeOther) // the secret does not stay in the address bar
}

func (s *Server) logOut(w http.ResponseWriter, r *http.Request) {
	if _, id := s.sessionOf(r); id != "" {
		s.sessions.logOut(id)
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
	}{}
	if session, _ := s.sessionOf(r); session != nil {
		out.Title, out.LoggedIn, out.User = s.options.Title, true, session.User
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
// this machine belongs to somebody else.
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
