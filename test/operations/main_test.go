// Package operations tests Operations, CronOperations and WatchOperations on a real API server, with a real function that is called over
// gRPC.
package operations

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation"
	catalog "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func TestMain(m *testing.M) {
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything runs that would log
	os.Exit(testkit.Main(m))
}

// world is a cluster with controllers that run operations, and a function.
type world struct {
	*testkit.Cluster
	config    *rest.Config
	namespace string
	address   string
	// clock is the time of the controllers, which stands still.
	clock atomic.Pointer[time.Time]

	mu sync.Mutex
	// calls counts the calls of the function by the name in its input; those that wait are blocked until their channel is closed.
	calls   map[string]int
	blocked map[string]chan struct{}
	// writes are those of the controllers to the three kinds.
	writes []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	w := &world{Cluster: testkit.NewCluster(t, config), config: config, namespace: testkit.Namespace(t, config),
		calls: map[string]int{}, blocked: map[string]chan struct{}{}}
	w.set(time.Now())
	w.address = rpc.Serve(t, w.run, function.Insecure())
	t.Cleanup(func() { // once the controllers have stopped
		for _, kind := range []schema.GroupVersionKind{operation.CronKind, operation.WatchKind, operation.Kind} {
			_ = w.Resource(t, kind, "").DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
		}
	})
	w.Apply(t, strings.ReplaceAll(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: operator, namespace: NS}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: operator, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator}
subjects: [{kind: ServiceAccount, name: operator, namespace: NS}]
`, "NS", w.namespace))
	return w
}

// run is the function. It applies a ConfigMap of the name in its input, with what it was given; fails the first times, if the input says so;
// and does not answer while the name is blocked.
func (w *world) run(ctx context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	input := r.GetInput().GetFields()
	name := input["name"].GetStringValue()
	w.mu.Lock()
	w.calls[name]++
	call, blocked := w.calls[name], w.blocked[name]
	w.mu.Unlock()
	if blocked != nil {
		select {
		case <-blocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	response := function.To(r)
	if call <= int(input["failures"].GetNumberValue()) {
		response.Results = append(response.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_FATAL, Message: fmt.Sprintf("failure %d", call)})
		return response, nil
	}
	watched := "nothing"
	for _, one := range r.GetRequiredResources()[opsv1alpha1.WatchedRequirement].GetItems() {
		o := &unstructured.Unstructured{Object: one.GetResource().AsMap()}
		watched = o.GetName()
		if o.GetResourceVersion() == opsv1alpha1.DeletedResourceVersion {
			watched += " is deleted"
		} else {
			text, _, _ := unstructured.NestedString(o.Object, "data", "text")
			watched += " has " + text
		}
	}
	content, err := structpb.NewStruct(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": input["namespace"].GetStringValue()}, "data": map[string]any{"watched": watched}})
	if err != nil {
		return nil, err
	}
	response.Desired = &fnv1.State{Resources: map[string]*fnv1.Resource{"result": {Resource: content}}}
	response.Output, err = structpb.NewStruct(map[string]any{"watched": watched, "credentials": len(r.GetCredentials())})
	return response, err
}

func (w *world) called(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[name]
}

// written are the writes so far.
func (w *world) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

// block has calls of the function with a name wait until it is released.
func (w *world) block(name string) (release func()) {
	waits := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked[name] = waits
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.blocked, name)
		close(waits)
	}
}

func (w *world) now() time.Time { return *w.clock.Load() }

func (w *world) set(clock time.Time) { w.clock.Store(&clock) }

func (w *world) begin(t *testing.T, config *rest.Config) *suite.Controllers {
	t.Helper()
	recorder := testkit.NewCrash(0)
	recorder.Log = func(text string) {
		if strings.Contains(text, "/ops.crossplane.io/") {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.writes = append(w.writes, text)
		}
	}
	return suite.Start(t, server.Options{
		Config: recorder.Wrap(config), Operations: &server.OperationOptions{Namespace: w.namespace}, Now: w.now, Log: testr.NewWithOptions(t, testr.Options{}),
		SigningKeyNamespace: w.namespace, Functions: catalog.Options{Local: map[string]catalog.LocalFunction{"function-test": {Address: w.address}}},
	})
}

// start runs the controllers, and waits until they run.
func (w *world) start(t *testing.T) *suite.Controllers {
	t.Helper()
	c := w.begin(t, w.config)
	t.Cleanup(func() { _ = c.Stop() })
	if err := c.WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// spec is the spec of an operation whose function applies a ConfigMap of that name.
func (w *world) spec(name string, more ...string) string {
	return fmt.Sprintf("{serviceAccount: {name: operator, namespace: %[1]s}, %[3]s pipeline: [{step: run, functionRef: {name: function-test}, "+
		"input: {apiVersion: test.example.org/v1, kind: Input, namespace: %[1]s, name: %[2]s%[4]s}}]}", w.namespace, name, first(more), strings.Join(more[min(1, len(more)):], ""))
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

func succeeded(o *unstructured.Unstructured) error {
	return suite.All(suite.IsPresent, suite.HasCondition("Succeeded", "True", "PipelineSuccess"), suite.HasCondition("Synced", "True", "ReconcileSuccess"),
		suite.HasCondition("ValidPipeline", "True", "ValidPipeline"))(o)
}

var (
	functionKind         = catalog.FunctionKind
	functionRevisionKind = catalog.RevisionKind
)
