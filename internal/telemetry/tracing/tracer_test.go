package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

var (
	subnet = object.Key{Group: "g", Kind: "Subnet", Namespace: "n", Name: "x"}
	vpc    = object.Key{Group: "g", Kind: "Vpc", Namespace: "n", Name: "x"}
	both   = object.Key{Group: "g", Kind: "Both", Namespace: "n", Name: "x"}
)

// world is a tracer with a recorder, and an API server that gives one answer.
type world struct {
	*Tracer
	*recorder
	code    int
	headers []string
	// during is called while a request awaits its answer.
	during func()
}

func newWorld() *world {
	r := &recorder{}
	return &world{Tracer: New(r), recorder: r, code: http.StatusOK}
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.headers = append(w.headers, r.Header.Get("Traceparent"))
	if w.during != nil {
		w.during()
	}
	return &http.Response{StatusCode: w.code, Body: http.NoBody}, nil
}

// reconcile runs a reconcile that makes requests, as "METHOD path".
func (w *world) reconcile(key object.Key, causes *Causes, requests ...string) {
	ctx, span := w.StartReconcile(context.Background(), schema.GroupVersionKind{Group: key.Group, Version: "v1", Kind: key.Kind}, key, causes, 0)
	for _, r := range requests {
		w.request(ctx, r)
	}
	span.End(reconcile.Done())
}

func (w *world) request(ctx context.Context, text string) {
	method, path, _ := strings.Cut(text, " ")
	r, err := http.NewRequestWithContext(ctx, method, "http://server"+path, nil)
	if err != nil {
		panic(err)
	}
	answer, err := w.Transport(w).RoundTrip(r)
	if err != nil {
		panic(err)
	}
	_ = answer.Body.Close()
}

func (w *world) event(key object.Key, revision string) *Event {
	return w.Event(Change{Object: key, UID: "uid of " + key.Kind, Revision: revision, Change: "Updated"})
}

// writes runs a reconcile that writes its status.
func (w *world) writes(key object.Key, causes *Causes, revision string) {
	ctx, span := w.StartReconcile(context.Background(), schema.GroupVersionKind{Version: "v1"}, key, causes, 0)
	w.request(ctx, fmt.Sprintf("PUT /apis/g/v1/namespaces/n/%ss/x/status", strings.ToLower(key.Kind)))
	w.RecordWrite(key, "uid of "+key.Kind, revision, key)
	span.End(reconcile.Done())
}

func (w *world) want(t *testing.T, want string, attributes ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), w.text(attributes...)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestAChangeAtTheBottomAndTheStatusOfTheTopAreOneTrace(t *testing.T) {
	w := newWorld()
	w.RecordManager("uid of Subnet", "5", "kubectl")
	w.writes(vpc, CausedBy(w.event(subnet, "5")), "6")
	w.writes(both, CausedBy(w.event(vpc, "6")), "7")
	w.want(t, `
event Subnet resourceVersion=5 manager=kubectl
  reconcile Vpc
    update vpcs/status
      event Vpc resourceVersion=6
        reconcile Both
          update boths/status
`, KeyRevisionAt, KeyManager)
	if len(w.running) > 0 || len(w.requests) > 0 {
		t.Errorf("still remembered: %v %v", w.running, w.requests)
	}
}

func TestAnEventThatArrivesBeforeTheAnswerBelongsToTheRequest(t *testing.T) {
	w := newWorld()
	var early *Event
	w.during = func() { early = w.event(vpc, "6") }
	w.writes(vpc, nil, "6")
	w.during = nil
	if late := w.event(vpc, "6"); late != early {
		t.Error("one state has two events")
	}
	w.event(vpc, "7")

	ctx, span := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
	w.request(ctx, "PUT /apis/g/v1/namespaces/n/vpcs/x/status")
	w.event(vpc, "8") // the answer is not recorded yet
	w.RecordWrite(vpc, "uid of Vpc", "8", vpc)
	w.event(vpc, "9")
	w.code = http.StatusConflict
	w.request(ctx, "PUT /apis/g/v1/namespaces/n/vpcs/x/status")
	w.event(vpc, "10")
	span.End(reconcile.Done())
	w.want(t, `
reconcile Vpc
  update vpcs/status
    event Vpc resourceVersion=6 assumed=true
event Vpc resourceVersion=7
reconcile Vpc
  update vpcs/status
    event Vpc resourceVersion=8 assumed=true
  update vpcs/status failed
event Vpc resourceVersion=9
event Vpc resourceVersion=10
`, KeyRevisionAt, KeyAssumed)
}

func TestTheRequestOfTheWriterIsTheCause(t *testing.T) {
	w := newWorld()
	ctx, above := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, both, nil, 0)
	below, vpcSpan := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
	w.request(below, "PUT /apis/g/v1/namespaces/n/vpcs/x/status")
	w.request(ctx, "PATCH /apis/g/v1/namespaces/n/vpcs/x")
	w.request(ctx, "PATCH /apis/g/v1/namespaces/n/subnets/x")
	w.RecordWrite(vpc, "uid of Vpc", "6", vpc)
	w.RecordWrite(vpc, "uid of Vpc", "7", both)
	w.RecordWrite(subnet, "uid of Subnet", "8", object.Key{}) // a writer that no event is kept from
	w.event(vpc, "6")
	w.event(vpc, "7")
	w.event(subnet, "8")
	vpcSpan.End(reconcile.Done())
	w.RecordWrite(vpc, "uid of Vpc", "9", both)
	w.event(vpc, "9")
	above.End(reconcile.Done())
	w.want(t, `
reconcile Both
  patch vpcs
    event Vpc resourceVersion=7
    event Vpc resourceVersion=9
  patch subnets
    event Subnet resourceVersion=8
reconcile Vpc
  update vpcs/status
    event Vpc resourceVersion=6
`, KeyRevisionAt)
}

func TestTheFirstCauseIsTheParentAndOthersAreLinks(t *testing.T) {
	w := newWorld()
	first := CausedBy(w.event(subnet, "1"))
	causes := first.And(nil).And(CausedBy(w.event(vpc, "2"))).And(first)
	w.reconcile(both, causes)
	w.want(t, `
event Subnet
  reconcile Both causes=2 linked to event Vpc
event Vpc
`, KeyCauses)

	many := newWorld()
	causes = nil
	for i := range 2 * maxCauses {
		causes = causes.And(CausedBy(many.event(subnet, fmt.Sprint(i))))
	}
	many.reconcile(both, causes.And(causes))
	last := many.spans[len(many.spans)-1]
	if len(last.links) != maxCauses-1 || last.attributes[KeyCauses] != int64(3*maxCauses) {
		t.Errorf("%d links, attributes %v", len(last.links), last.attributes)
	}
}

func TestAReconcileAfterATimeIsLinkedToTheOneThatAskedForIt(t *testing.T) {
	w := newWorld()
	_, span := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, CausedBy(w.event(subnet, "1")), 0)
	span.End(reconcile.RequeueAfter(time.Second))
	later := span.Later()
	w.reconcile(vpc, later)
	w.reconcile(both, later.And(CausedBy(w.event(subnet, "2"))))
	w.want(t, `
event Subnet
  reconcile Vpc causes=1
reconcile Vpc causes=0 linked to reconcile Vpc
event Subnet
  reconcile Both causes=1 linked to reconcile Vpc
`, KeyCauses)
}

func TestControllersThatAnswerEachOtherForeverDoNotMakeOneTraceForever(t *testing.T) {
	w := newWorld()
	var causes *Causes
	for i := range maxDepth + 2 {
		w.writes(vpc, causes, fmt.Sprint(i))
		causes = CausedBy(w.event(vpc, fmt.Sprint(i)))
	}
	var roots []*recorded
	for _, s := range w.spans {
		if !s.parent.IsValid() {
			roots = append(roots, s)
		}
	}
	if len(roots) != 2 || len(roots[1].links) != 1 || roots[1].name != "event Vpc" {
		t.Errorf("%d traces:\n%s", len(roots), w.text())
	}
}

func TestWhatIsNotSampledStaysSo(t *testing.T) {
	w := newWorld()
	w.unsampled = true
	w.writes(vpc, CausedBy(w.event(subnet, "5")), "6")
	w.reconcile(both, CausedBy(w.event(vpc, "6")))
	for _, s := range w.spans[1:] {
		if s.context.TraceID() != w.spans[0].context.TraceID() {
			t.Errorf("%s is decided about anew", s.name)
		}
		if len(s.attributes) > 0 {
			t.Errorf("%s has attributes", s.name)
		}
	}
	if want := "00-" + w.spans[0].context.TraceID().String() + "-" + w.spans[2].context.SpanID().String() + "-00"; !slices.Contains(w.headers, want) {
		t.Errorf("headers %q, want %q", w.headers, want)
	}
}

func TestRequests(t *testing.T) {
	w := newWorld()
	w.reconcile(vpc, nil,
		"GET /api/v1/namespaces/n/configmaps/c", "GET /api/v1/namespaces/n", "PUT /api/v1/namespaces/n/finalize", "GET /apis/g/v1/boths?labelSelector=secret",
		"PATCH /base/apis/g/v1/namespaces/n/vpcs/x?dryRun=All&fieldManager=m", "DELETE /apis/g/v1/namespaces/n/vpcs/x", "POST /apis/g/v1/namespaces/n/vpcs", "GET /openapi/v3")
	w.code = http.StatusConflict
	w.reconcile(vpc, nil, "PUT /apis/g/v1/namespaces/n/vpcs/x/status")
	w.request(t.Context(), "GET /apis/g/v1/vpcs?watch=true") // of a watch, not of a reconcile
	w.want(t, `
reconcile Vpc namespace=n name=x
  get configmaps verb=get resource=configmaps namespace=n name=c code=200
  get namespaces verb=get resource=namespaces name=n code=200
  update namespaces/finalize verb=update resource=namespaces subresource=finalize name=n code=200
  list boths verb=list resource=boths code=200
  patch vpcs verb=patch resource=vpcs namespace=n name=x dryRun=true code=200
  delete vpcs verb=delete resource=vpcs namespace=n name=x code=200
  create vpcs verb=create resource=vpcs namespace=n code=200
  get verb=get code=200
reconcile Vpc namespace=n name=x
  update vpcs/status verb=update resource=vpcs subresource=status namespace=n name=x code=409 conflict=true failed
`, KeyVerb, KeyResource, KeySubresource, KeyNamespace, KeyName, KeyDryRun, KeyCode, KeyConflict)
	if got := w.headers[len(w.headers)-1]; got != "" {
		t.Errorf("a watch has the header %q", got)
	}
}

// TestRetriesBelongToTheTrace of what failed, also if no change asked for it.
func TestRetriesBelongToTheTrace(t *testing.T) {
	w := newWorld()
	_, first := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
	causes := first.Retried(nil)
	first.End(reconcile.Fail(errors.New("unavailable")))
	_, second := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, causes, 0)
	if second.Retried(causes) != causes {
		t.Error("want the same causes for another retry")
	}
	second.End(reconcile.Done())
	w.want(t, `
reconcile Vpc result=failed failed
  reconcile Vpc result=done
`, KeyResult)
	if (*Reconcile)(nil).Retried(causes) != causes {
		t.Error("want the same causes where nothing is traced")
	}
}

type failedCall struct{ error }

func (failedCall) TraceReason() string { return "Unavailable" }

func TestErrorsHaveReasonsAndNoMessages(t *testing.T) {
	for reason, err := range map[string]error{
		"Invalid":          fmt.Errorf("apply: %w", apierrors.NewInvalid(schema.GroupKind{}, "hunter2", nil)),
		"DeadlineExceeded": context.DeadlineExceeded,
		"Canceled":         context.Canceled,
		"Unavailable":      fmt.Errorf("hunter2: %w", failedCall{errors.New("hunter2")}),
		"Error":            errors.New("hunter2"),
	} {
		w := newWorld()
		_, span := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
		span.End(reconcile.FailAfter(err, time.Second))
		w.want(t, "reconcile Vpc result=failed requeueAfterMs=1000 reason="+reason+" failed\n", KeyResult, KeyRequeue, KeyReason, "description")
		if text := fmt.Sprint(w.spans[0].attributes); strings.Contains(text, "hunter2") {
			t.Error(text)
		}
	}
}

func TestNodesAndFunctions(t *testing.T) {
	w := newWorld()
	ctx, span := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
	SetGeneration(ctx, 3)
	SetRevision(ctx, "2")
	node, s := StartNode(ctx, Node{ID: "subnet", Decision: "Create", Sensitive: true})
	w.request(node, "PATCH /apis/g/v1/namespaces/n/subnets/hunter2")
	s.End(nil)
	_, s = StartNode(ctx, Node{ID: "eks", Decision: "Wait", Reason: "WaitingForField"})
	s.End(nil)
	call, s := StartFunction(ctx, "first", "f", 1)
	if headers := Headers(call); len(headers) != 2 || headers[0] != "traceparent" {
		t.Errorf("headers %q", headers)
	}
	s.SetResults(true, 2)
	s.End(nil)
	for range maxNodeSpans {
		_, s = StartNode(ctx, Node{ID: "many"})
		s.End(nil)
	}
	span.End(reconcile.RequeueAfter(time.Minute))
	got := w.text(KeyGeneration, KeyRevision, KeyResult, KeyRequeue, KeyUntraced, KeyNode, KeyDecision, KeyReason, KeyName, KeyStep, KeyFunction, KeyFatal, KeyWarnings)
	want := `
reconcile Vpc generation=3 revision=2 result=waiting requeueAfterMs=60000 untracedNodes=2 name=x
  node subnet node=subnet decision=Create
    patch subnets
  node eks node=eks decision=Wait reason=WaitingForField
  function f step=first function=f fatal=true warnings=2 failed
  node many node=many
`
	if !strings.HasPrefix("\n"+got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestLogsHaveTheTraceIfItIsSampled(t *testing.T) {
	var lines bytes.Buffer
	log := funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{})
	w := newWorld()
	_, span := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
	span.Logger(log).Info("sampled")
	w.unsampled = true
	_, span = w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
	span.Logger(log).Info("not sampled")
	want := `"level"=0 "msg"="sampled" "trace_id"="00000000000000000000000000000001" "span_id"="0000000000000001"
"level"=0 "msg"="not sampled"
`
	if diff := cmp.Diff(want, lines.String()); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	w := newWorld()
	for i := range maxStates + 100 {
		w.event(subnet, fmt.Sprint(i))
		w.RecordManager("u", fmt.Sprint(i), "m")
	}
	if n, m := len(w.states.values), len(w.managers.values); n != maxStates || m != maxManagers {
		t.Errorf("%d states, %d managers", n, m)
	}
	spans := len(w.spans)
	w.event(subnet, fmt.Sprint(maxStates)) // still known
	if len(w.spans) != spans {
		t.Error("a recent state is forgotten")
	}
	ctx, span := w.StartReconcile(t.Context(), schema.GroupVersionKind{}, vpc, nil, 0)
	for i := range maxWrites + 10 {
		w.request(ctx, fmt.Sprintf("PATCH /apis/g/v1/namespaces/n/vpcs/%d", i))
	}
	if len(w.requests) != maxWrites {
		t.Errorf("%d requests", len(w.requests))
	}
	span.End(reconcile.Done())
}

func TestNothingIsAllocatedWithoutATracer(t *testing.T) {
	var none *Tracer
	ctx, log := t.Context(), logr.Discard()
	transport := http.DefaultTransport
	allocated := testing.AllocsPerRun(100, func() {
		causes := CausedBy(none.Event(Change{Object: subnet})).And(nil)
		none.RecordWrite(subnet, "u", "1", vpc)
		none.RecordManager("u", "1", "m")
		ctx, span := none.StartReconcile(ctx, schema.GroupVersionKind{}, vpc, causes, 0)
		span.Logger(log)
		SetGeneration(ctx, 1)
		SetRevision(ctx, "1")
		ctx, node := StartNode(ctx, Node{ID: "n"})
		node.End(nil)
		ctx, call := StartFunction(ctx, "s", "f", 1)
		call.SetResults(false, 0)
		call.End(nil)
		if Headers(ctx) != nil || IsRecording(ctx) || none.Transport(transport) != transport {
			t.Fatal("something is traced")
		}
		span.End(reconcile.Done())
		span.Later().And(causes)
	})
	if allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
}
