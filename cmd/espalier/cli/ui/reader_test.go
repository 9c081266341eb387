package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// answers is an API server that gives each path an answer with a status.
type answers map[string]struct {
	status int
	body   string
}

// The discovery of a kind of definitions and of a kind of instances.
const (
	groups      = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"kro.run","versions":[{"groupVersion":"kro.run/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"kro.run/v1alpha1","version":"v1alpha1"}}]}`
	resources   = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"kro.run/v1alpha1","resources":[{"name":"resourcegraphdefinitions","singularName":"resourcegraphdefinition","namespaced":false,"kind":"ResourceGraphDefinition","verbs":["list","watch"]},{"name":"shops","singularName":"shop","namespaced":true,"kind":"Shop","verbs":["list","watch"]}]}`
	definitions = `{"kind":"ResourceGraphDefinitionList","apiVersion":"kro.run/v1alpha1","metadata":{"resourceVersion":"1"},"items":[]}`
	forbidden   = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
)

func (a answers) cluster(t *testing.T) Cluster {
	t.Helper()
	all := answers{"/api": {200, `{"kind":"APIVersions","versions":["v1"]}`}, "/api/v1": {200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get"]}]}`}, "/apis": {200, groups}, "/apis/kro.run/v1alpha1": {200, resources}}
	for path, answer := range a {
		all[path] = answer
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := all[r.URL.Path]
		if !ok {
			answer.status, answer.body = http.StatusForbidden, forbidden
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.status)
		_, _ = w.Write([]byte(answer.body)) // the test has ended
	}))
	t.Cleanup(server.Close)
	c, err := NewCluster(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestProblemsSayWhatIsMissingAndWhatToDo: each says which verbs of which resource are missing where, and what follows.
func TestProblemsSayWhatIsMissingAndWhatToDo(t *testing.T) {
	shop := func(namespace string) Ref {
		return Ref{GroupKind: schema.GroupKind{Group: "kro.run", Kind: "Shop"}, Namespace: namespace}
	}
	instances := func(of Ref) func(context.Context, Cluster) error {
		return func(ctx context.Context, c Cluster) error {
			return c.Instances(ctx, of, make(chan []*unstructured.Unstructured))
		}
	}
	written := Ref{GroupKind: schema.GroupKind{Kind: "shop.kro.run"}, Namespace: "team-a"}
	for name, c := range map[string]struct {
		read func(context.Context, Cluster) error
		with answers
		want []string
	}{
		"instances of all namespaces":  {instances(shop("")), nil, []string{"you are not allowed to list and watch shops.kro.run in all namespaces", "name it above"}},
		"instances of a namespace":     {instances(shop("team-a")), nil, []string{"you are not allowed to list and watch shops.kro.run in namespace team-a", "ask an administrator for a role with the verbs list and watch for shops.kro.run"}},
		"a kind as a person writes it": {instances(written), nil, []string{"shops.kro.run in namespace team-a"}},
		"a kind that is not served":    {instances(Ref{GroupKind: schema.GroupKind{Kind: "shopp"}}), nil, []string{`did you mean "shop"?`}},
		"a definition": {func(ctx context.Context, c Cluster) error {
			return c.Definition(ctx, Ref{GroupKind: definitionKinds[0], Name: "shop"}, make(chan Definition))
		}, nil, []string{"you are not allowed to list and watch resourcegraphdefinitions.kro.run;", "espalier-viewer"}},
		"a cluster without definitions": {func(ctx context.Context, c Cluster) error { return c.Definitions(ctx, make(chan Definitions)) }, answers{"/apis": {200, `{"kind":"APIGroupList","groups":[]}`}}, []string{"no kind of definitions", "install Espalier"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.read(t.Context(), c.with.cluster(t))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q: %v", want, err)
				}
			}
		})
	}
}

// TestTheOverviewSaysWhatItLacks: a dialect that is not served is nothing that a viewer lacks.
func TestTheOverviewSaysWhatItLacks(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	states, ended := make(chan Definitions), make(chan error, 1)
	go func() { ended <- answers{}.cluster(t).Definitions(ctx, states) }()
	got := strings.Join((<-states).Problems, "\n")
	stop()
	<-ended
	if want := "you are not allowed to list and watch resourcegraphdefinitions.kro.run, so these definitions are not shown\nan administrator can permit it: "; !strings.HasPrefix(got, want) || strings.Contains(got, "has no kind") {
		t.Errorf("got %s", got)
	}
}

// TestTheOverviewHasObjectsWithoutADefinition: kinds of managed resources are known from discovery; those that may not be read are named.
func TestTheOverviewHasObjectsWithoutADefinition(t *testing.T) {
	group := func(name string) string {
		return `{"name":"` + name + `","versions":[{"groupVersion":"` + name + `/v1","version":"v1"}],"preferredVersion":{"groupVersion":"` + name + `/v1","version":"v1"}}`
	}
	kinds := func(group, kinds string) string {
		return `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"` + group + `/v1","resources":[` + kinds + `]}`
	}
	kind := func(plural, kind string) string {
		return `{"name":"` + plural + `","namespaced":true,"kind":"` + kind + `","verbs":["list","watch"],"categories":["managed"]}`
	}
	with := answers{
		"/apis":                       {200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group("clouds.example.com") + `,` + group("pkg.crossplane.io") + `]}`},
		"/apis/clouds.example.com/v1": {200, kinds("clouds.example.com", kind("buckets", "Bucket")+","+kind("queues", "Queue"))},
		"/apis/pkg.crossplane.io/v1":  {200, kinds("pkg.crossplane.io", `{"name":"functions","kind":"Function","verbs":["list","watch"]},{"name":"functionrevisions","kind":"FunctionRevision","verbs":["list","watch"]}`)},
		"/apis/clouds.example.com/v1/buckets": {200, `{"kind":"BucketList","apiVersion":"clouds.example.com/v1","metadata":{"resourceVersion":"1"},"items":[
			{"kind":"Bucket","apiVersion":"clouds.example.com/v1","metadata":{"name":"b","namespace":"n","uid":"b"},"spec":{"secret":"x","claimRef":{"name":"c"}}}]}`},
	}
	c := with.cluster(t)
	if got := c.Sections(); !slices.Equal(got, []string{SectionManaged, SectionPackages}) {
		t.Errorf("the sections are %v", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	states, ended := make(chan Objects), make(chan error, 1)
	go func() { ended <- c.Objects(ctx, SectionManaged, states) }()
	got := <-states
	stop()
	<-ended
	if len(got.Others) != 1 || got.Others[0].GetName() != "b" || fmt.Sprint(got.Others[0].Object["spec"]) != "map[claimRef:map[name:c]]" {
		t.Errorf("got %v", got.Others)
	}
	if text := strings.Join(got.Problems, "\n"); !strings.HasPrefix(text, "you are not allowed to list and watch queues.clouds.example.com in all namespaces, so these objects are not shown;") {
		t.Errorf("got %s", text)
	}
}

// TestARefusalAfterADocumentIsTriedAgain: an API server that starts refuses at first what it permits.
func TestARefusalAfterADocumentIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		document page.Document
		want     string
	}{
		"at once":          {page.Document{}, "event: problem"},
		"after a document": {page.Document{Head: map[string]any{"total": 1}}, "event: retry"},
	} {
		t.Run(name, func(t *testing.T) {
			refused := func(_ context.Context, _ Cluster, _ Ref, _ *stream, show func(page.Document) error) error {
				if c.document.Head != nil {
					if err := show(c.document); err != nil {
						return err
					}
				}
				return withAdvice(&forbiddenError{place{Query: reader.Query{Resource: schema.GroupVersionResource{Group: "kro.run", Resource: "shops"}}}})
			}
			s := NewServer(Options{Base: "/"})
			session := &Session{Cluster: answers{}.cluster(t)}
			if _, err := s.sessions.add(session); err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			s.serveStream(refused)(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), session)
			if got := w.Body.String(); !strings.Contains(got, c.want+"\ndata: \"you are not allowed to list and watch shops.kro.run") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestTheLinkIsLost: a request that gets no answer says so until one gets an answer.
func TestTheLinkIsLost(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	c, err := NewCluster(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		return c.Instances(t.Context(), Ref{GroupKind: schema.GroupKind{Group: "kro.run", Kind: "Shop"}}, nil)
	}
	if err := read(); err == nil || !c.IsReachable() {
		t.Errorf("an answer is an answer: %v", err)
	}
	server.Close()
	var temporary *TemporaryError
	if err := read(); !errors.As(err, &temporary) || c.IsReachable() {
		t.Errorf("the link is not lost: %v", err)
	}
}
