package tracing

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestTheReconcileOfACompositeHasItsFunctions(t *testing.T) {
	s := suite.NewSerial(t)
	s.Apply(t, suite.XRD("v2", "Stand", "size: {type: string}", "", "scope: Namespaced")+"---"+
		suite.Composition("stand", "Stand", suite.PatchAndTransform(`
        - name: record
          base: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: "$NS"}}
          patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: data.size}]
          readinessChecks: [{type: None}]
`)))
	s.Apply(t, `
apiVersion: $GROUP/v1alpha1
kind: Stand
metadata: {name: x, namespace: $NS}
spec: {size: size-of-the-stand}
`)
	s.Await(t, s.Kind("Stand"), s.NS, "x", testkit.IsReady)
	testkit.Poll(t, "the call of the function is in the reconcile", func() bool {
		all := spans(exported.GetSpans())
		return slices.ContainsFunc(all, func(span tracetest.SpanStub) bool {
			if span.Name != "function function-patch-and-transform" {
				return false
			}
			path := all.path(span)
			parent := path[max(0, len(path)-2)]
			return parent.Name == "reconcile Stand" && attributeOf(parent, tracing.KeyNamespace).AsString() == s.NS &&
				attributeOf(span, tracing.KeyStep).AsString() == "render" && attributeOf(parent, tracing.KeyRevision).AsString() != ""
		})
	})
	awaitEnded(t)
	checkAttributes(t, spans(exported.GetSpans()), "size-of-the-stand")
}
