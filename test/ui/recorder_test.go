package ui

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
)

// recorder keeps the addresses that a page has requested, and what it complained about.
type recorder struct {
	mu        sync.Mutex
	addresses []string
	problems  []string
}

func (r *recorder) event(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		r.addresses = append(r.addresses, e.Request.URL)
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		r.problems = append(r.problems, text)
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			r.problems = append(r.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

func (r *recorder) complaints() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.problems)
}

// check checks that the page requested nothing of others, and had no problems.
func (r *recorder) check(t *testing.T, server string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.addresses) == 0 {
		t.Error("the page requested nothing")
	}
	for _, address := range r.addresses {
		if !strings.HasPrefix(address, server+"/") {
			t.Errorf("the page requests %s", address)
		}
	}
	for _, p := range r.problems {
		t.Errorf("the page complains: %s", p)
	}
}

func quote(text string) string {
	raw, _ := json.Marshal(text) // a string
	return string(raw)
}

// serve serves the page of a cluster, and returns the server and the address to open.
func serve(t *testing.T, c ui.Cluster) (*ui.Server, *httptest.Server, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	handler := ui.NewServer(ui.Options{
		Title: "test", Secret: "secret", Base: "/base/", IsHost: ui.IsLoopback(server.Listener.Addr()),
		Viewer: func() (*ui.Session, error) { return &ui.Session{User: "alice", Cluster: c}, nil },
	})
	server.Config.Handler = handler
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections() // of streams
		server.Close()
	})
	return handler, server, server.URL + "/base/login?token=secret"
}
