// Package takeover tests that Espalier takes over objects of other engines, in recorded states of
// real clusters.
package takeover

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

// Kinds of the recorded states.
var (
	app      = schema.GroupVersionKind{Group: "platform.example.org", Version: "v1", Kind: "App"}
	database = schema.GroupVersionKind{Group: "legacy.example.org", Version: "v1alpha1", Kind: "Database"}
)

// before are the objects as they were before the controllers started, by "Kind
// namespace/name".
var before map[string]*unstructured.Unstructured

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // about the names of others' finalizers
	load := func(t *testing.T, w *testkit.Cluster) {
		w.Apply(t, suite.ComposingRole("composed", "", "apps", "platform.example.org", "legacy.example.org"))
		before = live.Load(t, w, live.Crossplane, live.KRO)
		history.follow(t, w, before)
	}
	os.Exit(suite.Main(m, server.Options{Settings: server.Settings{Dialects: server.Dialects, Usages: true}, Observe: observe}, load))
}

// observe records each reconcile.
func observe(p reconcile.Run) {
	failures.observe(p)
	reconciles.observe(p)
}

// reconciles are the starts of the last completed reconcile of each object.
var reconciles = reconcileTimes{at: map[object.Key]time.Time{}}

type reconcileTimes struct {
	mu sync.Mutex
	at map[object.Key]time.Time
}

func (b *reconcileTimes) observe(p reconcile.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[p.Key] = p.Began
}

// since reports whether a reconcile of an object that began after a time is complete.
func (b *reconcileTimes) since(key object.Key, after time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at[key].After(after)
}

// failures are the reconciles that failed, each of which is an error in the log.
var failures failedReconciles

type failedReconciles struct {
	mu  sync.Mutex
	all []string
}

func (f *failedReconciles) observe(p reconcile.Run) {
	if p.Err == nil || errors.Is(p.Err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, p.Key.String()+": "+p.Err.Error())
}
