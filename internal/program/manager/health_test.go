package manager

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReadinessWithoutDetails(t *testing.T) {
	secret := errors.New("jane lacks: list secrets")
	for _, path := range []string{"/readyz", "/readyz?verbose"} {
		for name, tc := range map[string]struct {
			ready error
			code  int
		}{"ready": {nil, http.StatusOK}, "not ready": {secret, http.StatusInternalServerError}} {
			h := health{ready: func() error { return tc.ready }, notes: func() []string { return []string{secret.Error()} }, withoutDetails: true}
			response := httptest.NewRecorder()
			h.handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
			if response.Code != tc.code || strings.Contains(response.Body.String(), "jane") {
				t.Errorf("%s of a program that is %s: %d: %q", path, name, response.Code, response.Body.String())
			}
		}
	}
}

func TestReadinessNamesChecksAndNotes(t *testing.T) {
	notReady := errors.New("the controllers are not running yet")
	cases := map[string]struct {
		path  string
		ready error
		notes []string
		code  int
		body  string
	}{
		"It lives":                           {"/healthz", notReady, nil, http.StatusOK, "ok"},
		"It is ready":                        {"/readyz", nil, []string{"jane lacks: list pods"}, http.StatusOK, "ok"},
		"It is ready, and has more to say":   {"/readyz?verbose", nil, []string{"jane lacks: list pods"}, http.StatusOK, "[+]controllers ok\n[!]jane lacks: list pods\nreadyz check passed\n"},
		"It is ready, and that is all":       {"/readyz?verbose", nil, nil, http.StatusOK, "[+]controllers ok\nreadyz check passed\n"},
		"It isn't ready, and says all":       {"/readyz", notReady, []string{"jane lacks: list pods"}, http.StatusInternalServerError, "[-]controllers failed: the controllers are not running yet\n[!]jane lacks: list pods\nreadyz check failed\n"},
		"Nobody knows what it is asked here": {"/metrics", nil, nil, http.StatusNotFound, "404 page not found\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := health{ready: func() error { return tc.ready }, notes: func() []string { return tc.notes }}
			answer := httptest.NewRecorder()
			h.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, tc.path, nil))
			if answer.Code != tc.code || answer.Body.String() != tc.body {
				t.Errorf("it answers %d: %q", answer.Code, answer.Body.String())
			}
		})
	}
}
