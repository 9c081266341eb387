// Package functions tests how functions are found and called, as their authors meet it,
// on a real API server and with real programs.
package functions

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	catalog "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// life is the variable that makes a function program of the test's own program.
const life = "ESPALIER_TEST_FUNCTION"

func TestMain(m *testing.M) {
	local.EnterNamespaces()
	if os.Getenv(life) != "" {
		function.Main(func(ctx context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return answering(strconv.Itoa(os.Getpid()))(ctx, r)
		})
		return
	}
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything runs that would log
	os.Exit(testkit.Main(m))
}

// testCatalog is a cluster with controllers that a test has for itself.
type testCatalog struct {
	*testkit.Cluster
	*server.Controllers
	counter *testkit.Counter

	mu      sync.Mutex
	changed map[string]int
	news    chan struct{}
}

// newTestCatalog starts the controllers.
func newTestCatalog(t *testing.T, o catalog.Options) *testCatalog {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	w := &testCatalog{Cluster: testkit.NewCluster(t, config), counter: &testkit.Counter{}, changed: map[string]int{}, news: make(chan struct{}, 1)}
	var err error
	w.Controllers, err = server.NewControllers(server.Options{
		Config: w.counter.Wrap(config), Settings: server.Settings{Workers: 2}, Version: "test", Log: logr.Discard(), Events: suite.DiscardEvents{}, Functions: o,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Functions.Subscribe(func(name string) {
		w.mu.Lock()
		w.changed[name]++
		w.mu.Unlock()
		select {
		case w.news <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := w.WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// await waits for news of functions until something is so.
func (w *testCatalog) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := time.After(testkit.Timeout)
	for !so() {
		select {
		case <-w.news:
		case <-late:
			t.Fatalf("%s, still not so", what)
		}
	}
}

// changes returns how often a function was reported as changed.
func (w *testCatalog) changes(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed[name]
}

// call calls a function and returns its result's message, or the error.
func (w *testCatalog) call(t *testing.T, name string) string {
	t.Helper()
	response, err := w.Functions.Run(t.Context(), name, &fnv1.RunFunctionRequest{Meta: &fnv1.RequestMeta{Tag: "same"}})
	switch {
	case err != nil:
		return err.Error()
	case len(response.GetResults()) == 0:
		return ""
	}
	return response.GetResults()[0].GetMessage()
}

// expectAnswer waits until a function answers with a text.
func (w *testCatalog) expectAnswer(t *testing.T, name, want string) {
	t.Helper()
	w.await(t, fmt.Sprintf("%s says %q rather than %q", name, want, w.call(t, name)), func() bool { return strings.Contains(w.call(t, name), want) })
}

// awaitConditions waits for the conditions of a Function.
func (w *testCatalog) awaitConditions(t *testing.T, name, installed, healthy string) {
	t.Helper()
	w.Await(t, catalog.FunctionKind, "", name, conditions("Installed", installed, "Healthy", healthy))
}

// answering returns a function that answers with a word, for a minute.
func answering(word string) function.Func {
	return func(_ context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return &fnv1.RunFunctionResponse{
			Meta:    &fnv1.ResponseMeta{Tag: r.GetMeta().GetTag(), Ttl: durationpb.New(time.Minute)},
			Results: []*fnv1.Result{{Severity: fnv1.Severity_SEVERITY_NORMAL, Message: word}},
		}, nil
	}
}
