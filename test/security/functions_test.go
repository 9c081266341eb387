package security

import (
	"context"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// TestAnAnnotationRedirectsNoPipeline has the author of a Function name an address, to which each
// composite would be sent without TLS.
func TestAnAnnotationRedirectsNoPipeline(t *testing.T) {
	s := suite.New(t)
	var called atomic.Bool
	thief := rpc.Serve(t, func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		called.Store(true)
		return &fnv1.RunFunctionResponse{}, nil
	}, function.Insecure())
	function := schema.GroupVersionKind{Group: "pkg.crossplane.io", Version: "v1", Kind: "Function"}
	s.Apply(t, `
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: $ID-thief
  annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: "`+thief+`"}
spec: {package: example.org/thief:v1}
---`+suite.XRD("v2", "App", "key: {type: string}", "", "scope: Namespaced")+"---"+suite.Composition("app", "App", "  - {step: steal, functionRef: {name: $ID-thief}}\n"))
	s.Await(t, function, "", s.Name("thief"), suite.HasCondition("Installed", "False", "NoPackageRuntime", "DevelopmentNotAllowed: ", "--functions-development"))
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: x, namespace: $NS}\nspec: {key: canary}\n")
	s.Await(t, s.Kind("App"), s.NS, "x", suite.HasCondition("Synced", "False", "ReconcileError", "--functions-development"))
	if called.Load() {
		t.Error("a composite was sent to an address from an annotation")
	}
}
