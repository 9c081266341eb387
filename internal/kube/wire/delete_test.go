package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

func TestADeletionIsConfirmedByTheAnswer(t *testing.T) {
	cases := map[string]struct {
		reason string
		code   int
		answer string
		gone   bool
	}{
		"The Status of a removed object": {"it has the UID", 200, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","kind":"things","uid":"u"}}`, true},
		"The Status of another object":   {"the UID differs", 200, `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"uid":"v"}}`, false},
		"A Status without UID":           {"it may be that of another kind of server", 200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, false},
		"A Status that is no success":    {"it says something else", 200, `{"kind":"Status","apiVersion":"v1","status":"Failure","details":{"uid":"u"}}`, false},
		"An accepted deletion":           {"it happens later", 202, `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"uid":"u"}}`, false},
		"An object with a finalizer":     {"it stays for now", 200, `{"kind":"Thing","apiVersion":"example.org/v1","metadata":{"uid":"u","deletionTimestamp":"2026-08-01T12:00:00Z"},"status":{"ready":true}}`, false},
		"An object as it was":            {"some kinds are answered so, gone or not", 200, `{"kind":"Thing","apiVersion":"example.org/v1","metadata":{"uid":"u"},"status":"Success","details":{"uid":"u"}}`, false},
		"A kind of the same name":        {"it is an object", 200, `{"kind":"Status","apiVersion":"example.org/v1","status":"Success","details":{"uid":"u"}}`, false},
		"Nothing":                        {"it says nothing", 200, ``, false},
		"No JSON":                        {"it says nothing", 200, `ok`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := deleting(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.code)
				_, _ = io.WriteString(w, tc.answer)
			})
			uid := types.UID("u")
			gone, err := client.ConfirmedDelete(t.Context(), schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}, "prod", "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if err != nil || gone != tc.gone {
				t.Errorf("%s: got %t, %v", tc.reason, gone, err)
			}
		})
	}
}

func deleting(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	client, err := NewClient(&rest.Config{Host: server.URL, QPS: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestADeletionIsThatOfTheDynamicClient compares the requests and the errors.
func TestADeletionIsThatOfTheDynamicClient(t *testing.T) {
	type request struct {
		Method, Path, ContentType string
		Options                   metav1.DeleteOptions
	}
	var seen []request
	refused := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","message":"no","details":{"name":"x","uid":"u"},"code":409}`
	client := deleting(t, func(w http.ResponseWriter, r *http.Request) {
		made := request{Method: r.Method, Path: r.URL.RequestURI(), ContentType: r.Header.Get("Content-Type")}
		if err := json.NewDecoder(r.Body).Decode(&made.Options); err != nil {
			t.Error(err)
		}
		seen = append(seen, made)
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, refused)
	})
	uid, revision, policy := types.UID("u"), "7", metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision}, PropagationPolicy: &policy}
	for of, namespace := range map[schema.GroupVersionResource]string{
		{Group: "example.org", Version: "v1", Resource: "things"}: "prod",
		{Group: "example.org", Version: "v1", Resource: "worlds"}: "",
		{Version: "v1", Resource: "configmaps"}:                   "prod",
		{Version: "v1", Resource: "namespaces"}:                   "",
	} {
		seen = nil
		want := client.Resource(of).Namespace(namespace).Delete(t.Context(), "x", options)
		gone, got := client.ConfirmedDelete(t.Context(), of, namespace, "x", options)
		if gone || cmp.Diff(want, got) != "" {
			t.Errorf("%s: got %t, %v, want %v", of.Resource, gone, got, want)
		}
		if len(seen) != 2 {
			t.Fatalf("%d requests", len(seen))
		}
		if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
			t.Errorf("%s: -dynamic client +this one:\n%s", of.Resource, diff)
		}
	}
}
