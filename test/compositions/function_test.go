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

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// scriptedFunction does what its input selects: a correct call, or one of the failures of
// broken functions.
func scriptedFunction(ctx context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
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

// calls are the requests of the steps of each composite.
var calls struct {
	mu sync.Mutex
	of map[types.NamespacedName][]string
}

// countingFunction counts its calls, and takes the time to live of its answer from the
// composite.
func countingFunction(ctx context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	composite := r.GetObserved().GetComposite().GetResource()
	request, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return nil, err
	}
	metadata := composite.GetFields()["metadata"].GetStructValue().GetFields()
	of := types.NamespacedName{Namespace: metadata["namespace"].GetStringValue(), Name: metadata["name"].GetStringValue()}
	calls.mu.Lock()
	if calls.of == nil {
		calls.of = map[types.NamespacedName][]string{}
	}
	calls.of[of] = append(calls.of[of], string(request))
	calls.mu.Unlock()
	response, err := scriptedFunction(ctx, r)
	if ttl := r.GetInput().GetFields()["ttl"].GetStringValue(); ttl != "" {
		d, err := time.ParseDuration(ttl)
		if err != nil {
			return nil, err
		}
		response.Meta.Ttl = durationpb.New(d)
	}
	return response, err
}

// repeated returns how many calls for a composite had the request of another call.
func repeated(namespace, name string) int {
	calls.mu.Lock()
	defer calls.mu.Unlock()
	requests := calls.of[types.NamespacedName{Namespace: namespace, Name: name}]
	return len(requests) - sets.New(requests...).Len()
}

// functionComposition is the composition of apps by one function in two steps.
func functionComposition(function, input string) string {
	step := `  - step: %s
    functionRef: {name: ` + function + `}
    input: {apiVersion: example.org/v1, kind: Input, ` + input + `}
`
	definition, _, _ := strings.Cut(app, "---")
	return definition + "---" + suite.Composition("app", "App", fmt.Sprintf(step, "first")+fmt.Sprintf(step, "second"))
}

// TestAKilledFunctionIsRestarted and what it has made stays meanwhile.
func TestAKilledFunctionIsRestarted(t *testing.T) {
	s := suite.NewSerial(t)
	s.Apply(t, functionComposition("program", "mode: well"))
	s.Apply(t, shopText)
	kind := s.Kind("App")
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if err := hasCondition(o, "PartsNamed", "True", "Named"); err != nil {
			return err
		}
		return available(o)
	})
	part := composedConfigMaps(t, s, "shop")["part"]
	pid, err := strconv.Atoi(text(part, "data", "pid"))
	if err != nil || pid == os.Getpid() {
		t.Fatalf("it was not a program of its own: %v", part.Object["data"])
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Apply(t, strings.Replace(shopText, "small", "large", 1))
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

// TestAMisbehavingFunctionKeepsComposedResources expects that the error names the step and the
// failure, that composed resources are kept and restored, and that the pipeline continues once
// the composition is corrected.
func TestAMisbehavingFunctionKeepsComposedResources(t *testing.T) {
	for mode, says := range map[string]string{
		"fatal": "I give up", "error": "I am broken", "hang": "DeadlineExceeded", "flood": "large", "nonsense": "apiVersion", "panic": "panic with a string", "exit": "program",
	} {
		t.Run(mode, func(t *testing.T) {
			s := suite.NewSerial(t) // one program serves them all, and some end it
			kind := s.Kind("App")
			s.Apply(t, functionComposition("program", "mode: well"))
			s.Apply(t, shopText)
			s.Await(t, kind, s.NS, "shop", available)
			made := composedConfigMaps(t, s, "shop")["part"]

			s.Apply(t, functionComposition("program", "mode: "+mode))
			s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
				if err := hasCondition(o, "PartsNamed", "Unknown", "FatalError"); err != nil {
					return err
				}
				return hasCondition(o, "Synced", "False", "ReconcileError", `step "`, says)
			})
			if left := composedConfigMaps(t, s, "shop")["part"]; left == nil || left.GetUID() != made.GetUID() {
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
			s.Apply(t, functionComposition("program", "mode: well"))
			s.Await(t, kind, s.NS, "shop", available)
		})
	}
}

// TestExternalFunctionsAreCalledOncePerStepAndChange expects that no step is called twice with the same request until
// the time to live of its response has ended.
func TestExternalFunctionsAreCalledOncePerStepAndChange(t *testing.T) {
	s := suite.NewSerial(t)
	s.Apply(t, functionComposition("counted", "mode: well"))
	kind := s.Kind("App")
	apply := func(name string) {
		s.Apply(t, strings.Replace(shopText, "name: shop", "name: "+name, 1))
		s.Await(t, kind, s.NS, name, available)
	}
	apply("first") // its functions are called also before ConfigMaps are listed
	apply("shop")
	s.Apply(t, strings.Replace(shopText, "small", "large", 1))
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if text(composedConfigMaps(t, s, "shop")["part"], "data", "size") != "large" {
			return errors.New("not yet")
		}
		return available(o)
	})
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: other}}`) // nobody's
	apply("last")                                                                            // so that what precedes has been handled
	if n := repeated(s.NS, "shop"); n > 0 {
		t.Errorf("%d calls say what a call before them has said", n)
	}

	s.Apply(t, functionComposition("counted", "mode: well, ttl: 300ms"))
	testkit.Poll(t, "it is called again when its answer's time is over", func() bool { return repeated(s.NS, "shop") >= 4 })
	for _, name := range []string{"first", "shop", "last"} {
		s.Delete(t, kind, s.NS, name)
		s.AwaitGone(t, kind, s.NS, name)
	}
	if list := s.List(t, suite.ConfigMap, s.NS, "crossplane.io/composite"); len(list) > 0 {
		t.Errorf("left over: %v", list)
	}
}
