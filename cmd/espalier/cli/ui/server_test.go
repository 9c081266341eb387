package ui_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/page"
)

// fake is a cluster that sends what a test sends, and says when a watch ends.
type fake struct {
	instances chan []*unstructured.Unstructured
	ended     chan struct{}
	problem   error
	lost      atomic.Bool
	sections  []string
}

func (f *fake) IsReachable() bool { return !f.lost.Load() }

func (f *fake) Instances(ctx context.Context, _ ui.Ref, states chan<- []*unstructured.Unstructured) error {
	defer func() { f.ended <- struct{}{} }()
	for f.problem == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case all := <-f.instances:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case states <- all:
			}
		}
	}
	return f.problem
}

func (f *fake) Objects(context.Context, string, chan<- ui.Objects) error { return f.problem }
func (f *fake) Sections() []string                                       { return f.sections }
func (f *fake) Events(context.Context, ui.Ref, chan<- []*unstructured.Unstructured) error {
	return f.problem
}
func (f *fake) Definitions(context.Context, chan<- ui.Definitions) error        { return f.problem }
func (f *fake) Definition(context.Context, ui.Ref, chan<- ui.Definition) error  { return f.problem }
func (f *fake) Tree(context.Context, ui.Ref, chan<- observe.ClusterState) error { return nil }
func (f *fake) Program(context.Context) ([]page.Watch, []page.Queue, error) {
	return nil, nil, f.problem
}

func newFake() *fake {
	return &fake{instances: make(chan []*unstructured.Unstructured, 1), ended: make(chan struct{}, 100)}
}

// site is a server with a client that has logged in.
type site struct {
	*httptest.Server
	handler *ui.Server
	cookie  *http.Cookie
	now     time.Time
}

func newSite(t *testing.T, f *fake) *site {
	t.Helper()
	s := &site{Server: httptest.NewUnstartedServer(nil), now: time.Now()}
	s.handler = ui.NewServer(ui.Options{
		Title: "cluster", Secret: "s3cret", Base: "/base/", IsHost: ui.IsLoopback(s.Listener.Addr()), Now: func() time.Time { return s.now },
		Viewer: func() (*ui.Session, error) { return &ui.Session{User: "alice", Cluster: f}, nil },
	})
	s.Config.Handler = s.handler
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	response := s.do(t, s.request(t, http.MethodGet, "login?token=s3cret", ""))
	if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/base/" || len(response.Cookies()) != 1 {
		t.Fatalf("the login answers %s %v", response.Status, response.Header)
	}
	s.cookie = response.Cookies()[0]
	return s
}

func (s *site) request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/base/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if s.cookie != nil {
		r.AddCookie(s.cookie)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", s.URL)
	}
	return r
}

func (s *site) do(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestTheCookieIsForThisServerOnly(t *testing.T) {
	s := newSite(t, newFake())
	if c := s.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/base/" || len(c.Value) < 40 {
		t.Errorf("got %v", c)
	}
}

func TestRefusedRequests(t *testing.T) {
	s := newSite(t, newFake())
	cases := map[string]struct {
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"no session":                       {http.MethodGet, "api/overview", func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		"a cookie that was guessed":        {http.MethodGet, "api/overview", func(r *http.Request) { r.Header.Set("Cookie", "espalier=guess") }, http.StatusUnauthorized},
		"another secret":                   {http.MethodGet, "login?token=guess", nil, http.StatusForbidden},
		"no secret":                        {http.MethodGet, "login", nil, http.StatusForbidden},
		"a name that resolves to loopback": {http.MethodGet, "", func(r *http.Request) { r.Host = "evil.example.com" }, http.StatusMisdirectedRequest},
		"another port":                     {http.MethodGet, "", func(r *http.Request) { r.Host = "127.0.0.1:1" }, http.StatusMisdirectedRequest},
		"a request of another site":        {http.MethodGet, "api/session", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"a request of another port":        {http.MethodGet, "api/session", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"a foreign origin":                 {http.MethodPost, "logout", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, http.StatusForbidden},
		"a form without origin":            {http.MethodPost, "logout", func(r *http.Request) { r.Header.Del("Origin") }, http.StatusForbidden},
		"a write":                          {http.MethodPut, "api/overview", func(r *http.Request) { r.Header.Set("Origin", s.URL) }, http.StatusMethodNotAllowed},
		"a file that is not an asset":      {http.MethodGet, "server.go", nil, http.StatusNotFound},
		"a window that is none":            {http.MethodGet, "api/overview?window=7", nil, http.StatusBadRequest},
		"a stream of somebody else":        {http.MethodPost, "api/window?stream=guess", nil, http.StatusNotFound},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := s.request(t, c.method, c.path, "{}")
			if c.change != nil {
				c.change(r)
			}
			if got := s.do(t, r); got.StatusCode != c.want {
				t.Errorf("got %s, want %d", got.Status, c.want)
			}
		})
	}
}

// TestCausesKeepTheirLines: the cause of a definition that does not compile lists its problems, one a line.
func TestCausesKeepTheirLines(t *testing.T) {
	s := newSite(t, newFake())
	style, err := io.ReadAll(s.do(t, s.request(t, http.MethodGet, "style.css", "")).Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range []string{".cause", ".cause-main", ".chain li"} {
		if !regexp.MustCompile(`(?m)^([^{]*, )?` + regexp.QuoteMeta(class) + `(, [^{]*)? \{[^}]*white-space: pre-line`).Match(style) {
			t.Errorf("%s folds lines", class)
		}
	}
}

func TestHeaders(t *testing.T) {
	s := newSite(t, newFake())
	for _, path := range []string{"", "app.js", "style.css", "icon.svg", "api/session", "nowhere"} {
		h := s.do(t, s.request(t, http.MethodGet, path, "")).Header
		if got := h.Get("Content-Security-Policy"); got != "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'" {
			t.Errorf("%s: the policy is %q", path, got)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
	if got := s.do(t, s.request(t, http.MethodGet, "app.js", "")).Header.Get("Content-Type"); got != "text/javascript; charset=utf-8" {
		t.Errorf("the type of a script is %q", got)
	}
}

// TestAStreamSaysWhetherTheAPIServerAnswers: what it has sent is old while the API server does not.
func TestAStreamSaysWhetherTheAPIServerAnswers(t *testing.T) {
	f := newFake()
	s := newSite(t, f)
	e, stop := s.stream(t, "api/instances?group=example.com&kind=Shop")
	defer stop()
	if name, _ := e.next(); name != "stream" {
		t.Fatalf("the first event is %s", name)
	}
	f.lost.Store(true)
	if name, data := e.next(); name != "reachable" || data != "false" {
		t.Errorf("after the API server was lost: %s %s", name, data)
	}
	f.lost.Store(false)
	if name, data := e.next(); name != "reachable" || data != "true" {
		t.Errorf("after it is back: %s %s", name, data)
	}
}

// TestWhatFailsForNowIsTriedAgain: a page that was opened while the API server was down shows what it has once it is up.
func TestWhatFailsForNowIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		problem error
		want    string
	}{
		"for now":  {&ui.TemporaryError{Text: "the API server does not answer"}, "retry"},
		"for ever": {errors.New("you are not allowed to list and watch shops"), "problem"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.problem = c.problem
			e, stop := newSite(t, f).stream(t, "api/instances?group=example.com&kind=Shop")
			defer stop()
			e.next()
			if got, data := e.next(); got != c.want || !strings.Contains(data, c.problem.Error()) {
				t.Errorf("got %s %s", got, data)
			}
		})
	}
}

// events reads server-sent events.
type events struct {
	t *testing.T
	*bufio.Scanner
}

func (s *site) stream(t *testing.T, path string) (*events, func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	response := s.do(t, s.request(t, http.MethodGet, path, "").WithContext(ctx))
	if response.StatusCode != http.StatusOK {
		t.Fatalf("got %s", response.Status)
	}
	return &events{t, bufio.NewScanner(response.Body)}, stop
}

// next returns the name and the data of the next event; empty at the end.
func (e *events) next() (name, data string) {
	e.t.Helper()
	for e.Scan() {
		line := e.Text()
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			name = text
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			data = text
		}
		if line == "" && name != "" {
			return name, data
		}
	}
	return "", ""
}

func shop(name, ready string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop", "metadata": map[string]any{"name": name, "uid": name, "resourceVersion": ready, "labels": map[string]any{"applyset.kubernetes.io/id": name}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
	}}
}

func TestAStreamEndsWithItsViewer(t *testing.T) {
	f := newFake()
	s := newSite(t, f)
	f.instances <- []*unstructured.Unstructured{shop("a", "True"), shop("b", "True")}
	e, stop := s.stream(t, "api/instances?group=example.com&kind=Shop")
	_, id := e.next()
	if name, data := e.next(); name != "update" || !strings.Contains(data, `"order":["Shop a","Shop b"]`) {
		t.Errorf("first came %s %s", name, data)
	}
	f.instances <- []*unstructured.Unstructured{shop("a", "True"), shop("b", "False")}
	if name, data := e.next(); name != "update" || !strings.Contains(data, `"order":["Shop b","Shop a"],"items":{"Shop b":`) || strings.Contains(data, `"Shop a":{`) {
		t.Errorf("then came %s %s", name, data)
	}
	if got := s.do(t, s.request(t, http.MethodPost, "api/window?stream="+strings.Trim(id, `"`), `{"limit":1,"filter":"/a"}`)); got.StatusCode != http.StatusNoContent {
		t.Errorf("the window answers %s", got.Status)
	}
	if name, data := e.next(); name != "update" || !strings.Contains(data, `"matching":1`) || !strings.Contains(data, `"order":["Shop a"]`) {
		t.Errorf("then came %s %s", name, data)
	}
	stop()
	<-f.ended
}

func TestAStreamEndsWithItsSession(t *testing.T) {
	f := newFake()
	s := newSite(t, f)
	f.instances <- nil
	e, stop := s.stream(t, "api/instances?kind=Shop")
	defer stop()
	e.next()
	e.next()
	if got := s.do(t, s.request(t, http.MethodPost, "logout", "")); got.StatusCode != http.StatusNoContent {
		t.Errorf("the logout answers %s", got.Status)
	}
	if name, _ := e.next(); name != "" {
		t.Errorf("after the logout came %s", name)
	}
	<-f.ended
	if got := s.do(t, s.request(t, http.MethodGet, "api/overview", "")); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the logout: %s", got.Status)
	}
}

func TestSessionsExpire(t *testing.T) {
	s := newSite(t, newFake())
	s.now = s.now.Add(13 * time.Hour)
	if got := s.do(t, s.request(t, http.MethodGet, "api/overview", "")); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %s", got.Status)
	}
}

func TestAProblemIsShown(t *testing.T) {
	f := newFake()
	f.problem = errors.New("you are not allowed to list shops")
	s := newSite(t, f)
	e, stop := s.stream(t, "api/instances?kind=Shop")
	defer stop()
	e.next()
	if name, data := e.next(); name != "problem" || data != `"you are not allowed to list shops"` {
		t.Errorf("got %s %s", name, data)
	}
}

func TestThereAreNotTooManyStreams(t *testing.T) {
	f := newFake()
	s := newSite(t, f)
	for range 16 {
		e, stop := s.stream(t, "api/instances?kind=Shop")
		defer stop()
		e.next()
	}
	if got := s.do(t, s.request(t, http.MethodGet, "api/instances?kind=Shop", "")); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the seventeenth stream answers %s", got.Status)
	}
}
