package compositions

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// checkUnwritten checks that reconciles of an object do not write it.
func checkUnwritten(t *testing.T, calls *atomic.Int64, get func() *unstructured.Unstructured) {
	t.Helper()
	var counts []int64
	awaitStable(t, 3500*time.Millisecond, func() string {
		counts = append(counts, calls.Load())
		return get().GetResourceVersion()
	})
	if last := len(counts) - 1; counts[last] == counts[last-1] {
		t.Error("it was not reconciled")
	}
}

// awaitStable waits for a period without a change. A busy machine only delays it.
func awaitStable(t *testing.T, period time.Duration, get func() string) {
	t.Helper()
	for began := time.Now(); ; {
		before := get()
		sleep(t, period)
		after := get()
		if before == after {
			return
		}
		if time.Since(began) > testkit.Timeout {
			t.Fatalf("it changes on and on: from %s to %s", before, after)
		}
	}
}

func TestAnUnstableFunctionIsNotCalledForever(t *testing.T) {
	s := suite.New(t)
	var calls atomic.Int64
	serveFunction(t, s, func(functionInput) functionOutput {
		return functionOutput{resources: map[string]map[string]any{"store": configMap("", nil)}, status: map[string]any{"count": calls.Add(1)}}
	})
	kind := createCoded(t, s)
	shop := s.Await(t, kind, s.NS, "shop", available)
	sleep(t, 8*time.Second)
	if n := calls.Load(); n > 40 {
		t.Errorf("it is called %d times in 8 s", n)
	}
	if n := s.Get(t, kind, s.NS, "shop").GetGeneration(); n != shop.GetGeneration() {
		t.Errorf("its spec is written")
	}
}

func TestATinyTimeToLiveIsRaisedToTheMinimum(t *testing.T) {
	s := suite.New(t)
	var calls atomic.Int64
	serveFunction(t, s, func(functionInput) functionOutput {
		calls.Add(1)
		return functionOutput{resources: map[string]map[string]any{"store": configMap("", nil)}, ttl: time.Millisecond}
	})
	s.Apply(t, coded)
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {}}`)
	s.Await(t, s.Kind("Coded"), s.NS, "shop", available)
	before := calls.Load()
	sleep(t, 3*time.Second)
	if n := calls.Load() - before; n > 10 {
		t.Errorf("it is called %d times in 3 s", n)
	}
}

// TestAStatusThatTheSchemaPrunesIsWrittenOnce has a function return fields that are not in the
// schema, fields of another type, and conditions of several names.
func TestAStatusThatTheSchemaPrunesIsWrittenOnce(t *testing.T) {
	s := suite.New(t)
	var calls atomic.Int64
	serveFunction(t, s, func(functionInput) functionOutput {
		calls.Add(1)
		return functionOutput{
			ttl: time.Second, resources: map[string]map[string]any{"store": configMap("", nil)},
			status: map[string]any{
				"address": "here", "count": 3.0, "unknown": map[string]any{"a": int64(1)},
				"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}, "crossplane": map[string]any{"pendingResources": "none"},
			},
			conditions: []*fnv1.Condition{
				{Type: "Stalled", Status: fnv1.Status_STATUS_CONDITION_TRUE, Reason: "Slow"},
				{Type: "Backed-Up", Status: fnv1.Status_STATUS_CONDITION_FALSE, Reason: "No"},
			},
		}
	})
	kind := createCoded(t, s)
	shop := s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if err := hasCondition(o, "Stalled", "True", "Slow"); err != nil {
			return err
		}
		return available(o)
	})
	if text(shop, "status", "address") != "here" {
		t.Errorf("status is %v", shop.Object["status"])
	}
	checkUnwritten(t, &calls, func() *unstructured.Unstructured { return s.Get(t, kind, s.NS, "shop") })
}

func TestACompositeReportsAMissingRevision(t *testing.T) {
	s := suite.New(t)
	kind := createShop(t, s)
	for _, crossplane := range []string{
		`{"compositionUpdatePolicy":"Manual","compositionRevisionRef":{"name":"gone"}}`,
		`{"compositionUpdatePolicy":"Automatic","compositionRevisionSelector":{"matchLabels":{"channel":"none"}}}`,
	} {
		s.Patch(t, kind, s.NS, "shop", `{"spec":{"crossplane":`+crossplane+`}}`)
		s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
			return hasCondition(o, "Synced", "False", "ReconcileError", "revision")
		})
		if left := composedConfigMaps(t, s, "shop"); len(left) != 2 {
			t.Errorf("there is left %v", left)
		}
	}
}

// A Secret of another owner has the name of the one that a composite publishes to.
func TestUnpublishedDetailsAreNotReportedAsPublished(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, strings.Replace(strings.Replace(nest, "functionRef: {name: function-auto-ready}", "functionRef: {name: $ID-function}", 1), "connectionSecretKeys: [password]", "", 1))
	var calls atomic.Int64
	serveRequeuingFunction(t, s, &calls)
	s.Apply(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: $NS, name: theirs}, data: {password: dGhlaXJz}}`)
	xtop := s.Kind("XTop")
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: XTop
metadata: {name: $ID-shop}
spec: {size: small, writeConnectionSecretToRef: {namespace: $NS, name: theirs}}`)
	s.Await(t, xtop, "", s.Name("shop"), func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "already exists")
	})
	checkUnwritten(t, &calls, func() *unstructured.Unstructured {
		o := s.Get(t, xtop, "", s.Name("shop"))
		if at := text(o, "status", "connectionDetails", "lastPublishedTime"); at != "" {
			t.Errorf("published at %s", at)
		}
		return o
	})
	if got := text(s.Get(t, suite.Secret, s.NS, "theirs"), "data", "password"); got != "dGhlaXJz" {
		t.Errorf("their Secret has %s", got)
	}
}

// serveRequeuingFunction serves a function that publishes a password and asks to be called every
// second.
func serveRequeuingFunction(t *testing.T, s suite.Suite, calls *atomic.Int64) {
	serveRawFunction(t, s, func(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		calls.Add(1)
		out := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Ttl: durationpb.New(time.Second)}, Desired: r.GetDesired()}
		if out.Desired.GetComposite() == nil {
			out.Desired.Composite = &fnv1.Resource{}
		}
		out.Desired.Composite.ConnectionDetails = map[string][]byte{"password": []byte("ours")}
		return out, nil
	})
}
