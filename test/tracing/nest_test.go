package tracing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var nest = suite.SubnetCRD +
	"---" + suite.Graph("Vpc", `spec: {cidr: 'string | default="10.0.0.0/16"'}, status: {subnet: "${subnet.status.id}"}`, `
    - id: subnet
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: "${schema.metadata.name}"}, spec: {cidr: "${schema.spec.cidr}"}}
`) +
	"---" + suite.Graph("Eks", `spec: {name: string}, status: {subnet: "${vpc.status.subnet}"}`, `
    - id: vpc
      template: {apiVersion: $GROUP/v1alpha1, kind: Vpc, metadata: {name: "${schema.spec.name}"}}
`) +
	"---" + suite.Graph("Both", `spec: {name: string}, status: {subnet: "${eks.status.subnet}"}`, `
    - id: eks
      template: {apiVersion: $GROUP/v1alpha1, kind: Eks, metadata: {name: "${schema.spec.name}"}, spec: {name: "${schema.spec.name}"}}
    - id: record
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}-record"}, data: {subnet: "${eks.status.subnet}"}}
`)

const top = `
apiVersion: $GROUP/v1alpha1
kind: Both
metadata: {name: x, namespace: $NS}
spec: {name: x}
`

func TestOneTraceLeadsFromAChangeBelowToTheStatusOfTheTop(t *testing.T) {
	s := suite.NewSerial(t)
	s.Apply(t, nest)
	s.Apply(t, top)
	s.SetSubnet(t, "subnet-first")
	arrived := func(value string) {
		s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField(value, "status", "subnet")))
	}
	arrived("subnet-first")
	awaitEnded(t)

	began := time.Now()
	s.SetSubnet(t, "subnet-second")
	arrived("subnet-second")
	revision := s.Get(t, s.Kind("Subnet"), s.NS, "x").GetResourceVersion()

	var path []tracetest.SpanStub
	testkit.Poll(t, "the trace has the status of the top", func() bool {
		all := spans(exported.GetSpans())
		last := slices.IndexFunc(all, func(span tracetest.SpanStub) bool {
			return span.Name == "update boths/status" && attributeOf(span, tracing.KeyNamespace).AsString() == s.NS && span.StartTime.After(began)
		})
		if last < 0 {
			return false
		}
		path = all.path(all[last])
		return len(path) > 0 && !path[0].Parent.IsValid()
	})
	want := []string{
		"event Subnet", "reconcile Vpc", "update vpcs/status",
		"event Vpc", "reconcile Eks", "update eks/status",
		"event Eks", "reconcile Both", "update boths/status",
	}
	var got []string
	for i, s := range path {
		got = append(got, s.Name)
		if i > 0 && s.StartTime.Before(path[i-1].StartTime) {
			t.Errorf("%s began before %s", s.Name, path[i-1].Name)
		}
		if s.SpanContext.TraceID() != path[0].SpanContext.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the way is\n%s, want\n%s; the spans are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), spans(exported.GetSpans()))
	}
	for key, value := range map[string]string{tracing.KeyRevisionAt: revision, tracing.KeyName: "x", tracing.KeyNamespace: s.NS, tracing.KeyGroup: s.Group} {
		if got := attributeOf(path[0], key).AsString(); got != value {
			t.Errorf("the event's %s is %q, want %q", key, got, value)
		}
	}
	awaitEqual(t, func() (int, int) { return sent.in(s.NS), spans(exported.GetSpans()).writes(s.NS) })

	all := spans(exported.GetSpans())
	if !slices.ContainsFunc(all, func(s tracetest.SpanStub) bool {
		return s.Name == "node record" && attributeOf(s, tracing.KeyDecision).AsString() == "Update" && s.SpanContext.TraceID() == path[0].SpanContext.TraceID()
	}) {
		t.Errorf("the update of the top's node is not in the trace:\n%s", all)
	}
	checkAttributes(t, all, "subnet-first", "subnet-second", "10.0.0.0/16")
}

func TestWaitsAndDeletionsAreNodes(t *testing.T) {
	s := suite.NewSerial(t)
	began := time.Now()
	s.Apply(t, nest)
	s.Apply(t, top)
	s.Await(t, s.Kind("Both"), s.NS, "x", suite.HasCondition("Ready", "False", "", "subnet"))
	has := func(name, decision string) {
		testkit.Poll(t, "the span "+name+" "+decision, func() bool {
			return slices.ContainsFunc(exported.GetSpans(), func(span tracetest.SpanStub) bool {
				return span.Name == name && span.StartTime.After(began) && attributeOf(span, tracing.KeyDecision).AsString() == decision
			})
		})
	}
	has("node eks", "Create")
	has("node record", "Wait")
	testkit.Poll(t, "the log that the top waits has the identifiers of its reconcile", func() bool {
		return slices.ContainsFunc(exported.GetSpans(), func(span tracetest.SpanStub) bool {
			id := span.SpanContext
			return span.Name == "reconcile Both" && len(logged.with("a resource waits", `"kind":"Both"`, `"namespace":"`+s.NS+`"`,
				`"trace_id":"`+id.TraceID().String()+`","span_id":"`+id.SpanID().String()+`"`)) > 0
		})
	})
	s.SetSubnet(t, "subnet-first")
	s.AwaitReady(t, s.Kind("Both"), s.NS, "x")
	s.Delete(t, s.Kind("Both"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Both"), s.NS, "x")
	has("node record", "Delete")
	has("node eks", "Delete")
	awaitEnded(t)
	checkAttributes(t, spans(exported.GetSpans()), "subnet-first")
}

type spans []tracetest.SpanStub

// path is the way from the root to a span.
func (all spans) path(to tracetest.SpanStub) []tracetest.SpanStub {
	out := []tracetest.SpanStub{to}
	for out[0].Parent.IsValid() {
		parent := slices.IndexFunc(all, func(s tracetest.SpanStub) bool { return s.SpanContext.SpanID() == out[0].Parent.SpanID() })
		if parent < 0 {
			return out // it has not ended
		}
		out = slices.Insert(out, 0, all[parent])
	}
	return out
}

// writes counts the requests in a namespace that are not reads.
func (all spans) writes(namespace string) int {
	n := 0
	for _, s := range all {
		if verb := attributeOf(s, tracing.KeyVerb).AsString(); verb != "" && verb != "get" && verb != "list" && attributeOf(s, tracing.KeyNamespace).AsString() == namespace {
			n++
		}
	}
	return n
}

func (all spans) String() string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %v\n", s.Name, s.Attributes)
	}
	return b.String()
}

func attributeOf(s tracetest.SpanStub, key string) attribute.Value {
	for _, kv := range s.Attributes {
		if string(kv.Key) == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

// awaitEqual waits until there are as many spans as requests.
func awaitEqual(t *testing.T, counts func() (requests, spans int)) {
	t.Helper()
	var requests, traced int
	testkit.Poll(t, "each request that writes has a span", func() bool {
		requests, traced = counts()
		return requests == traced
	})
	if requests == 0 {
		t.Error("there are no requests")
	}
}

// awaitEnded waits until each span has its parent.
func awaitEnded(t *testing.T) {
	t.Helper()
	testkit.Poll(t, "all reconciles have ended", func() bool {
		open := map[string]bool{}
		for _, s := range exported.GetSpans() {
			if s.Parent.IsValid() {
				open[s.Parent.SpanID().String()] = true
			}
		}
		for _, s := range exported.GetSpans() {
			delete(open, s.SpanContext.SpanID().String())
		}
		return len(open) == 0
	})
}

// checkAttributes checks that spans have only documented attributes, and none that holds a value.
func checkAttributes(t *testing.T, all spans, values ...string) {
	t.Helper()
	known := map[string][]string{}
	for _, k := range tracing.Keys {
		known[k.Name] = k.On
	}
	for _, s := range all {
		kind, _, _ := strings.Cut(s.Name, " ")
		if attributeOf(s, tracing.KeyVerb).AsString() != "" {
			kind = "request"
		}
		for _, kv := range s.Attributes {
			if !slices.Contains(known[string(kv.Key)], kind) {
				t.Errorf("%s has the attribute %s, which is not documented", s.Name, kv.Key)
			}
			for _, value := range values {
				if strings.Contains(kv.Value.String(), value) {
					t.Errorf("%s has a value of an object: %s=%s", s.Name, kv.Key, kv.Value.String())
				}
			}
		}
		if s.Status.Description != "" || len(s.Events) > 0 {
			t.Errorf("%s has a message: %v %v", s.Name, s.Status, s.Events)
		}
	}
}
