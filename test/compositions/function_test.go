package compositions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// obey is a function that does as its input says: well, or one of the things that
// functions do when they are broken.
func obey(ctx context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	response := function.To(r)
	switch mode := r.GetInput().GetFields()["mode"].GetStringValue(); mode {
	case "fatal":
		response.Results = append(response.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_FATAL, Message: "I give up"})
		return response, nil
	case "error":
		return nil, errors.New("I am broken")
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "flood":
		response.Results = append(response.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_NORMAL, Message: strings.Repeat("x", 2<<20)})
		return response, nil
	case "nonsense":
		response.Desired.Resources = map[string]*fnv1.Resource{"part": {Resource: object(map[string]any{"kind": "ConfigMap"})}}
		return response, nil
	case "panic":
		panic("I panic")
	case "exit":
		os.Exit(3)
	}
	spec := r.GetObserved().GetComposite().GetResource().GetFields()["spec"].GetStructValue()
	part := object(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"size": spec.GetFields()["size"].GetStringValue(), "pid": strconv.Itoa(os.Getpid())},
	})
	if response.Desired.Resources == nil {
		response.Desired.Resources = map[string]*fnv1.Resource{}
	}
	response.Desired.Resources["part"] = &fnv1.Resource{Resource: part, Ready: fnv1.Ready_READY_TRUE}
	response.Conditions = append(response.Conditions, &fnv1.Condition{Type: "PartsNamed", Status: fnv1.Status_STATUS_CONDITION_TRUE, Reason: "Named"})
	return response, nil
}

func object(fields map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err)
	}
	return s
}

// calls counts the calls of each composite's steps.
var calls struct {
	mu sync.Mutex
	of map[string]int
}

// counted is a function that counts, and lets its answer live for as long as the
// composite says.
func counted(ctx context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	composite := r.GetObserved().GetComposite().GetResource()
	name := composite.GetFields()["metadata"].GetStructValue().GetFields()["namespace"].GetStringValue()
	calls.mu.Lock()
	if calls.of == nil {
		calls.of = map[string]int{}
	}
	calls.of[name]++
	calls.mu.Unlock()
	response, err := obey(ctx, r)
	if ttl := r.GetInput().GetFields()["ttl"].GetStringValue(); ttl != "" {
		d, err := time.ParseDuration(ttl)
		if err != nil {
			return nil, err
		}
		response.Meta.Ttl = durationpb.New(d)
	}
	return response, err
}

func countedFor(namespace string) int {
	calls.mu.Lock()
	defer calls.mu.Unlock()
	return calls.of[namespace]
}

// by is the composition of apps by one function in two steps.
func by(function, input string) string {
	step := `
  - step: %s
    functionRef: {name: ` + function + `}
    input: {apiVersion: example.org/v1, kind: Input, ` + input + `}`
	definition, _, _ := strings.Cut(app, "---")
	return definition + `
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-app}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: App}
  mode: Pipeline
  pipeline:` + fmt.Sprintf(step, "first") + fmt.Sprintf(step, "second")
}

// TestAFunctionThatIsKilledIsCalledAgain and what it has made stays meanwhile.
func TestAFunctionThatIsKilledIsCalledAgain(t *testing.T) {
	s := suite.Alone(t)
	s.Put(t, by("program", "mode: well"))
	s.Put(t, shopText)
	kind := s.Kind("App")
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if err := hasCondition(o, "PartsNamed", "True", "Named"); err != nil {
			return err
		}
		return available(o)
	})
	part := parts(t, s, "shop")["part"]
	pid, err := strconv.Atoi(text(part, "data", "pid"))
	if err != nil || pid == os.Getpid() {
		t.Fatalf("it wasn't a program of its own: %v", part.Object["data"])
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Put(t, strings.Replace(shopText, "small", "large", 1))
	s.Await(t, suite.ConfigMap, s.NS, part.GetName(), func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() != part.GetUID() {
			t.Fatal("the part was lost")
		}
		if text(o, "data", "size") != "large" || text(o, "data", "pid") == strconv.Itoa(pid) {
			return fmt.Errorf("data is %v", o.Object["data"])
		}
		return nil
	})
	s.Await(t, kind, s.NS, "shop", available)
}

// TestAFunctionThatMisbehavesIsContained says which step of the pipeline it is and what it
// did, keeps what was made, and goes on when the composition is mended.
func TestAFunctionThatMisbehavesIsContained(t *testing.T) {
	for mode, says := range map[string]string{
		"fatal": "I give up", "error": "I am broken", "hang": "DeadlineExceeded", "flood": "large", "nonsense": "apiVersion", "panic": "panicked", "exit": "program",
	} {
		t.Run(mode, func(t *testing.T) {
			s := suite.Alone(t) // one program serves them all, and some end it
			kind := s.Kind("App")
			s.Put(t, by("program", "mode: well"))
			s.Put(t, shopText)
			s.Await(t, kind, s.NS, "shop", available)
			made := parts(t, s, "shop")["part"]

			s.Put(t, by("program", "mode: "+mode))
			s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
				if err := hasCondition(o, "PartsNamed", "Unknown", "FatalError"); err != nil {
					return err
				}
				return hasCondition(o, "Synced", "False", "ReconcileError", `step "`, says)
			})
			if left := parts(t, s, "shop")["part"]; left == nil || left.GetUID() != made.GetUID() {
				t.Errorf("what was made is %v", left)
			}
			// What it last wanted is kept true all the same.
			s.Delete(t, suite.ConfigMap, s.NS, made.GetName())
			s.Await(t, suite.ConfigMap, s.NS, made.GetName(), func(o *unstructured.Unstructured) error {
				if o == nil || o.GetUID() == made.GetUID() {
					return errors.New("it isn't made anew")
				}
				return nil
			})
			s.Put(t, by("program", "mode: well"))
			s.Await(t, kind, s.NS, "shop", available)
		})
	}
}

// TestExternalFunctionsAreCalledOnceForEachStepOfAPass and not at all at rest, but when
// their answer's time is over.
func TestExternalFunctionsAreCalledOnceForEachStepOfAPass(t *testing.T) {
	s := suite.Alone(t)
	s.Put(t, by("counted", "mode: well"))
	s.Put(t, shopText)
	kind := s.Kind("App")
	s.Await(t, kind, s.NS, "shop", available)
	made := countedFor(s.NS)
	if made > 4 { // once to know what is wanted, once with what is there then
		t.Errorf("%d calls of two steps to make it", made)
	}
	s.Put(t, strings.Replace(shopText, "small", "large", 1))
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if text(parts(t, s, "shop")["part"], "data", "size") != "large" {
			return errors.New("not yet")
		}
		return available(o)
	})
	if changed := countedFor(s.NS) - made; changed > 4 {
		t.Errorf("%d calls of two steps to change it", changed)
	}
	rest := countedFor(s.NS)
	s.Put(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: other}}`) // nobody's
	if got := countedFor(s.NS); got != rest {
		t.Errorf("%d calls at rest", got-rest)
	}

	s.Put(t, by("counted", "mode: well, ttl: 300ms"))
	from := countedFor(s.NS)
	testkit.Poll(t, "it is called again when its answer's time is over", func() bool { return countedFor(s.NS) >= from+6 })
	s.Delete(t, kind, s.NS, "shop")
	s.AwaitGone(t, kind, s.NS, "shop")
	if list, err := s.Of(t, suite.ConfigMap, s.NS).List(t.Context(), metav1.ListOptions{LabelSelector: "crossplane.io/composite"}); err != nil || len(list.Items) > 0 {
		t.Errorf("left over: %v, %v", list, err)
	}
}
