package ui

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// tokenPage is the page of the controllers, to which viewers log in with tokens.
type tokenPage struct {
	suite.Suite
	*httptest.Server
	handler *ui.Server
	ahead   atomic.Int64 // how far its clock is ahead
}

func newTokenPage(t *testing.T) *tokenPage {
	t.Helper()
	return newBoundedTokenPage(t, 50_000)
}

// newBoundedTokenPage returns one that keeps a number of objects in memory at most.
func newBoundedTokenPage(t *testing.T, maxObjects int) *tokenPage {
	t.Helper()
	p := &tokenPage{Suite: suite.New(t)}
	logIn, now := ui.TokenLogin(p.Suite.Config, maxObjects, func(context.Context) ([]page.Watch, []page.Queue, error) {
		return []page.Watch{{Group: "example.com", Version: "v1", Kind: "Watched", State: "Running"}}, nil, nil
	}), func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
	p.handler = ui.NewServer(ui.Options{Title: "test", Base: "/", LogIn: logIn, Now: now})
	p.Server = httptest.NewTLSServer(p.handler)
	t.Cleanup(func() {
		p.CloseClientConnections() // of streams
		p.Close()
	})
	p.Apply(t, suite.SubnetCRD)
	p.Apply(t, suite.Graph("Shop", `spec: {replicas: "integer | default=2"}`, shop))
	p.AwaitDefinitions(t, "shop")
	p.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Shop\nmetadata: {name: main, namespace: $NS}\n")
	p.Await(t, configMap, p.NS, "main-settings", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("there is none")
		}
		return nil
	})
	return p
}

// viewer is a service account with rules for the whole cluster, and its token.
func (p *tokenPage) viewer(t *testing.T, name, rules string) (token string) {
	t.Helper()
	p.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: `+name+`, namespace: $NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS-`+name+`}
rules: `+rules+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $NS-`+name+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $NS-`+name+`}
subjects: [{kind: ServiceAccount, namespace: $NS, name: `+name+`}]
`)
	created, err := kubernetes.NewForConfigOrDie(p.Suite.Config).CoreV1().ServiceAccounts(p.NS).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Status.Token
}

const (
	readsAll         = `[{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}, {nonResourceURLs: [/metrics], verbs: [get]}]`
	readsDefinitions = `[{apiGroups: [kro.run], resources: [resourcegraphdefinitions], verbs: [get, list, watch]}]`
	readsNothing     = `[]`
)

// tenant is a viewer with rules for the whole cluster who may also read the objects in the test's namespace.
func (p *tokenPage) tenant(t *testing.T, name, rules string) (token string) {
	t.Helper()
	token = p.viewer(t, name, rules)
	p.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: `+name+`, namespace: $NS}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: `+name+`, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: `+name+`}
subjects: [{kind: ServiceAccount, namespace: $NS, name: `+name+`}]
`)
	return token
}

// update opens a stream with a token and returns the first update, or the problem that ends it.
func (p *tokenPage) update(t *testing.T, token, path string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/api/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := p.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.Status
	}
	scanner := bufio.NewScanner(response.Body)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		if name, ok := strings.CutPrefix(scanner.Text(), "event: "); ok && name != "stream" && scanner.Scan() {
			return scanner.Text()
		}
	}
	return "the stream has ended"
}

func TestEachViewerSeesWhatTheirTokenMayRead(t *testing.T) {
	p := newTokenPage(t)
	all, definitions, nothing := p.viewer(t, "alice", readsAll), p.viewer(t, "bob", readsDefinitions), p.viewer(t, "carol", readsNothing)
	instances := "instances?" + url.Values{"group": {p.Group}, "kind": {"Shop"}}.Encode()
	object := "object?" + url.Values{"group": {p.Group}, "kind": {"Shop"}, "namespace": {p.NS}, "name": {"main"}}.Encode()
	definition, shops := `"`+p.Name("shop")+`"`, "you are not allowed to list and watch shops."+p.Group
	cases := map[string]struct {
		token, path string
		has, hasNot []string
	}{
		"all: instances":            {all, instances, []string{`"main"`}, []string{"you are not allowed to"}},
		"all: an instance":          {all, object, []string{"main-settings"}, []string{"you are not allowed to"}},
		"all: the program":          {all, "program", []string{"Watched"}, []string{"you are not allowed to"}},
		"definitions: the overview": {definitions, "overview", []string{definition}, nil},
		"definitions: instances":    {definitions, instances, []string{shops}, []string{`"main"`}},
		"definitions: an instance":  {definitions, object, []string{"you are not allowed to"}, []string{"main-settings"}},
		"definitions: the program":  {definitions, "program", []string{"you are not allowed to read the watches and queues"}, []string{"Watched"}},
		"nothing: the overview":     {nothing, "overview", []string{"you are not allowed to list and watch resourcegraphdefinitions.kro.run"}, []string{definition}},
		"nothing: instances":        {nothing, instances, []string{shops}, []string{`"main"`}},
		"no token of the cluster":   {all + "x", "overview", []string{"401"}, []string{definition}},
		"a word":                    {"guess", instances, []string{"401"}, []string{`"main"`}},
		"no token":                  {"", instances, []string{"401"}, []string{`"main"`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := p.update(t, c.token, c.path)
			for _, want := range c.has {
				if !strings.Contains(got, want) {
					t.Errorf("no %s: %s", want, got)
				}
			}
			for _, bad := range c.hasNot {
				if strings.Contains(got, bad) {
					t.Errorf("%s: %s", bad, got)
				}
			}
		})
	}
	awaitNoStreams(t, p.handler)
}

func TestThePageKeepsSoManyObjectsOnly(t *testing.T) {
	p := newBoundedTokenPage(t, 1)
	token := p.viewer(t, "alice", readsAll)
	query := url.Values{"group": {p.Group}, "kind": {"Shop"}}
	if got := p.update(t, token, "instances?"+query.Encode()); !strings.Contains(got, `"main"`) {
		t.Errorf("one: %s", got)
	}
	awaitNoStreams(t, p.handler)
	p.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Shop\nmetadata: {name: other, namespace: $NS}\n")
	if got := p.update(t, token, "instances?"+query.Encode()); !strings.Contains(got, "there are more objects than this server keeps") || strings.Contains(got, `"main"`) {
		t.Errorf("two: %s", got)
	}
	awaitNoStreams(t, p.handler)
	p.Suite.Delete(t, p.Kind("Shop"), p.NS, "other")
	p.AwaitGone(t, p.Kind("Shop"), p.NS, "other")
	if got := p.update(t, token, "instances?"+query.Encode()); !strings.Contains(got, `"main"`) {
		t.Errorf("one again: what has ended still counts: %s", got)
	}
}

func TestATokenThatIsRevokedEndsItsStreams(t *testing.T) {
	p := newTokenPage(t)
	token := p.viewer(t, "alice", readsAll)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/api/overview", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := p.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	p.ahead.Add(int64(time.Minute))
	p.handler.ReviewSessions(t.Context())
	if got := p.handler.OpenStreams(); got != 1 {
		t.Fatalf("%d streams are open", got)
	}
	if err := kubernetes.NewForConfigOrDie(p.Suite.Config).CoreV1().ServiceAccounts(p.NS).Delete(t.Context(), "alice", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.PollFor(t, testkit.Timeout, "the stream ends", func() bool { // the API server remembers a token for some seconds
		p.ahead.Add(int64(time.Minute))
		p.handler.ReviewSessions(t.Context())
		return p.handler.OpenStreams() == 0
	})
	if got := p.update(t, token, "overview"); !strings.HasPrefix(got, "401") {
		t.Errorf("then: %s", got)
	}
}

func TestLogInAndOut(t *testing.T) {
	p := newTokenPage(t)
	token, other := p.viewer(t, "alice", readsAll), p.viewer(t, "bob", readsDefinitions)
	b := newBrowser(t)
	b.run(t, chromedp.Navigate(p.URL+"/"))
	b.arrive(t, "location.pathname === '/login' && document.activeElement?.id === 'token'")
	b.examine(t, "login")
	logIn := func(token string) {
		t.Helper()
		b.arrive(t, "document.getElementById('token')?.form") // the page has been parsed
		b.do(t, "const i = document.getElementById('token'); i.value = "+quote(token)+"; i.form.requestSubmit()")
	}
	logIn(token)
	b.arrive(t, "location.pathname === '/' && "+row("main"))
	b.await(t, "document.getElementById('who').innerText.includes('system:serviceaccount:"+p.NS+":alice')")
	b.examine(t, "logged-in")
	b.goTo(t, "#/definition?"+url.Values{"group": {"kro.run"}, "kind": {"ResourceGraphDefinition"}, "name": {p.Name("shop")}}.Encode())
	b.arrive(t, "[...document.querySelectorAll('tbody th a')].some(a => a.textContent === 'main')")
	b.goTo(t, "#/program")
	b.await(t, "document.body.innerText.includes('Watched')")
	if got := p.handler.OpenStreams(); got == 0 {
		t.Error("no stream is open")
	}
	if text := evaluate[string](t, b, "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.documentElement.outerHTML"); strings.Contains(text, token) || strings.Contains(text, "espalier=") {
		t.Error("scripts can read the token or the cookie")
	}
	b.do(t, "[...document.querySelectorAll('#who button')].find(x => x.textContent === 'Log out').click()")
	b.arrive(t, "location.pathname === '/login'")
	awaitNoStreams(t, p.handler)
	b.requests.check(t, p.URL)

	logIn(other)
	// The note names the kind, or after eight others, which may be those of other tests, how many more there are.
	b.arrive(t, "location.pathname === '/' && /You are not allowed to list and watch (.*shops."+p.Group+".*|([^,]+, ){8}[0-9]+ further kinds) in all namespaces, so these objects are not shown/.test(document.body.innerText) && !("+row("main")+")")
	b.examine(t, "few-permissions")
	b.goTo(t, "#/program")
	b.await(t, "document.body.innerText.includes('You are not allowed to read the watches')")
	b.requests.check(t, p.URL)

	// A logout in another tab leads this one to the login.
	b.do(t, "fetch('logout', { method: 'POST' })")
	b.arrive(t, "location.pathname === '/login'")
	logIn("guess")
	b.arrive(t, "document.querySelector('[role=alert]')?.innerText.includes('does not accept the token')")
	b.examine(t, "login-refused")
}

// arrive waits until an expression is true in the page that the browser goes to, which may not be there yet.
func (b *browser) arrive(t *testing.T, expression string) {
	t.Helper()
	testkit.PollFor(t, testkit.Timeout, expression, func() bool {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && ok
	})
}

func TestATenantNamesTheirNamespace(t *testing.T) {
	p := newTokenPage(t)
	token := p.tenant(t, "tina", readsDefinitions)
	b := newBrowser(t)
	b.run(t, chromedp.Navigate(p.URL+"/login"))
	b.arrive(t, "document.getElementById('token')?.form")
	b.do(t, "const i = document.getElementById('token'); i.value = "+quote(token)+"; i.form.requestSubmit()")
	b.arrive(t, "location.pathname === '/' && document.body.innerText.includes('you are allowed to in one namespace')")
	b.goTo(t, "#/definition?"+url.Values{"group": {"kro.run"}, "kind": {"ResourceGraphDefinition"}, "name": {p.Name("shop")}}.Encode())
	b.await(t, "document.body.innerText.includes('You are not allowed to list and watch shops."+p.Group+" in all namespaces; if you are allowed to in one namespace, name it above.')")
	b.do(t, "for (const d of document.querySelectorAll('details')) d.open = true")
	b.await(t, "document.body.innerText.includes('You are not allowed to list and watch graphrevisions.internal.kro.run, so revisions are not shown.')")
	b.do(t, "const n = [...document.querySelectorAll('label')].find(l => l.innerText.startsWith('Namespace')).querySelector('input'); n.value = "+quote(p.NS)+"; n.dispatchEvent(new Event('change'))")
	b.await(t, "[...document.querySelectorAll('tbody th a')].some(a => a.textContent === 'main') && !document.body.innerText.includes('You are not allowed to list and watch shops')")
	b.examine(t, "tenant")
	b.goTo(t, "#/object?"+url.Values{"group": {p.Group}, "kind": {"Shop"}, "namespace": {p.NS}, "name": {"main"}}.Encode())
	b.await(t, "!!document.querySelector('.node[data-id=\"/web/\"]')")
	b.examine(t, "tenant-object")
	b.requests.check(t, p.URL)
}

// TestATenantWithoutDefinitionsNamesAKind: the first page has no definition for them, but leads to the instances that they may read.
func TestATenantWithoutDefinitionsNamesAKind(t *testing.T) {
	p := newTokenPage(t)
	token := p.tenant(t, "tom", readsNothing)
	b := newBrowser(t)
	b.run(t, chromedp.Navigate(p.URL+"/login"))
	b.arrive(t, "document.getElementById('token')?.form")
	b.do(t, "const i = document.getElementById('token'); i.value = "+quote(token)+"; i.form.requestSubmit()")
	b.arrive(t, "location.pathname === '/' && document.querySelector('form[aria-label=\"Instances of a kind\"]')?.checkVisibility()")
	b.await(t, "document.body.innerText.includes('You are not allowed to list and watch resourcegraphdefinitions.kro.run, so these definitions are not shown.')")
	b.examine(t, "tenant-overview")
	b.do(t, "const f = document.querySelector('main form'); const [kind, namespace] = f.querySelectorAll('input'); kind.value = "+quote("shop."+p.Group)+"; namespace.value = "+quote(p.NS)+"; f.requestSubmit()")
	b.await(t, "location.hash.startsWith('#/instances') && [...document.querySelectorAll('tbody th a')].some(a => a.textContent === 'main')")
	b.requests.check(t, p.URL)
}
