package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
	"github.com/espalier-dev/espalier/test/steps"
)

// calls counts the calls of functions for composites, by whether their name begins with
// "again".
type calls struct {
	pipeline.Runner
	once, again *atomic.Int64
}

func (c calls) Run(ctx context.Context, name string, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	metadata := r.GetObserved().GetComposite().GetResource().GetFields()["metadata"].GetStructValue()
	if strings.HasPrefix(metadata.GetFields()["name"].GetStringValue(), "again") {
		c.again.Add(1)
	} else {
		c.once.Add(1)
	}
	return c.Runner.Run(ctx, name, r)
}

// lastingDefinitions is a kind with functions that return a time to live of two seconds.
var lastingDefinitions = steps.XRD("Lasting", "Namespaced", "") +
	strings.Replace(steps.Composition("lasting", "Lasting", steps.ComposedConfigMap("a")+steps.ComposedConfigMap("b")),
		"functionRef: {name: function-auto-ready}", "functionRef: {name: function-auto-ready}, input: {apiVersion: autoready.fn.crossplane.io/v1beta1, kind: Input, ttl: 2s}", 1)

// TestSweepCompositesAtRestSendNoRequests creates many composites, and checks that no requests
// are sent to the API server and to functions while nothing changes, also after a restart.
func TestSweepCompositesAtRestSendNoRequests(t *testing.T) {
	const idle, ttl, functions = 5 * time.Second, 2 * time.Second, 2
	many, few := testkit.Size(60, 1000), 20
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	var (
		once, again atomic.Int64
	)
	ns := testkit.Namespace(t, config)
	counter := testkit.Counter{Filter: func(r *http.Request) bool { return !steps.InOtherNamespace(r.URL.Path, ns) }}
	options := server.Options{Config: counter.Wrap(config), WrapRunner: func(r pipeline.Runner) pipeline.Runner { return calls{r, &once, &again} }}
	stop := steps.RunWith(t, options)
	defer func() { stop() }()
	steps.Define(t, w)
	w.Apply(t, lastingDefinitions)

	began := time.Now()
	createComposites(t, w, ns, "Five", "once", many)
	createComposites(t, w, ns, "Lasting", "again", few)
	took := time.Since(began)
	testkit.Report(t, "rest: %d composites of five are made in %s, with %d calls of functions", many, took.Round(time.Millisecond), once.Load())

	rest := func(when string) {
		t.Helper()
		awaitNoRequests(t, func() int64 { return int64(counter.Snapshot().Total) + once.Load() })
		before, called, lasted := counter.Snapshot(), once.Load(), again.Load()
		<-time.After(idle)
		cost, more := counter.Since(before), again.Load()-lasted
		testkit.Report(t, "rest: %s, %d composites in %s: %d requests, %d calls; and %d calls for %d whose answers hold for %s", when, many, idle, cost.Total, once.Load()-called, more, few, ttl)
		if cost.Total > 0 || once.Load() > called {
			t.Errorf("%s there were %d requests (%s) and %d calls", when, cost.Total, cost, once.Load()-called)
		}
		if most := int64(few) * functions * int64(idle/ttl+1); more > most || more == 0 {
			t.Errorf("%s there were %d calls for answers that hold for %s, not 1 to %d", when, more, ttl, most)
		}
	}
	rest("afterwards")

	stop()
	var writes atomic.Int64
	crash := testkit.NewCrash(0)
	crash.Log = func(request string) {
		if !steps.InOtherNamespace(request, ns) && !strings.Contains(request, "/late-") {
			writes.Add(1)
			t.Error("the restart wrote:", request)
		}
	}
	options.Config = crash.Wrap(counter.Wrap(config))
	called := once.Load()
	stop = steps.RunWith(t, options)
	createComposites(t, w, ns, "Five", "late", 1) // what was there before is looked at before
	rest("after a restart")
	testkit.Report(t, "rest: the restart over %d composites made %d writes and %d calls", many+few, writes.Load(), once.Load()-called)
}

// createComposites makes composites and waits until all are ready.
func createComposites(t *testing.T, w *testkit.Cluster, ns, of, prefix string, n int) {
	t.Helper()
	const atOnce = 50
	for from := 0; from < n; from += atOnce {
		text, to := "", min(n, from+atOnce)
		for i := from; i < to; i++ {
			text += fmt.Sprintf("---\napiVersion: sweep.example.com/v1alpha1\nkind: %s\nmetadata: {name: %s-%04d, namespace: %s, labels: {batch: %s-%d}}\nspec: {value: one, crossplane: {compositionRef: {name: sweep-%s}}}\n",
				of, prefix, i, ns, prefix, from, strings.ToLower(of))
		}
		w.Apply(t, text)
		w.AwaitList(t, steps.Kind(of), ns, fmt.Sprintf("batch=%s-%d", prefix, from), func(objects map[string]*unstructured.Unstructured) error {
			if len(objects) < to-from {
				return errors.New("not all are there")
			}
			for _, o := range objects {
				if err := testkit.IsReady(o); err != nil {
					return fmt.Errorf("%s: %w", o.GetName(), err)
				}
			}
			return nil
		})
	}
}

// silence is longer than the three seconds from the first list of roles to the second review of the controllers'
// permissions, the last request after a start.
const silence = 4 * time.Second

// awaitNoRequests waits until there has been nothing new to count for as long as silence.
func awaitNoRequests(t *testing.T, count func() int64) {
	t.Helper()
	last, since := count(), time.Now()
	testkit.Poll(t, "there is nothing new", func() bool {
		if now := count(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > silence
	})
}
