package kube_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// TestCRDsAreListedIfTheirWatchListEndsEarly has a server whose watch-lists all end after the first object, as a proxy does it
// that limits the answers.
func TestCRDsAreListedIfTheirWatchListEndsEarly(t *testing.T) {
	const tooMany = 20 // so that the test ends
	definition := apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", UID: "u", ResourceVersion: "7"},
	}
	var mu sync.Mutex
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		kind, open := "list", false
		switch {
		case r.URL.Query().Get("sendInitialEvents") == "true":
			kind, open = "watch-list", len(requests) >= tooMany
		case r.URL.Query().Get("watch") == "true":
			kind, open = "watch", true
		}
		requests = append(requests, kind)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch kind {
		case "watch-list":
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": definition})
		case "list":
			_ = json.NewEncoder(w).Encode(apiextensionsv1.CustomResourceDefinitionList{
				TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinitionList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "8"}, Items: []apiextensionsv1.CustomResourceDefinition{definition},
			})
		}
		if open {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	keep := func(c *apiextensionsv1.CustomResourceDefinition) *crd.Stored { return crd.Keep(c) }
	found := make(chan string, 1)
	crds, err := kube.NewCRDs(&rest.Config{Host: server.URL}, server.Client(), logr.Discard(), keep, func(_, current *crd.Stored) {
		select {
		case found <- current.Name:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop() // before the server, which waits for the watch
	go crds.Run(ctx)
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	select {
	case <-crds.Synced():
	case <-late.C:
		t.Error("the definitions are not read")
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"watch-list", "list"}; len(requests) < 2 || !slices.Equal(requests[:2], want) {
		t.Errorf("the requests are %v, want %v first", requests, want)
	}
	if len(found) != 1 {
		t.Error("the definition is not reported")
	}
}
