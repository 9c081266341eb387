package pipeline_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// atlas says where functions are.
type atlas struct {
	sync.Mutex
	at map[string]pipeline.Endpoint
}

func (a *atlas) Endpoint(_ context.Context, name string) (pipeline.Endpoint, error) {
	a.Lock()
	defer a.Unlock()
	e, ok := a.at[name]
	if !ok {
		return e, &pipeline.UnknownFunctionError{Function: name}
	}
	return e, nil
}

func (a *atlas) set(name string, e pipeline.Endpoint) {
	a.Lock()
	defer a.Unlock()
	a.at[name] = e
}

// saying answers with a word, as the tag.
func saying(word string) function.Func {
	return func(context.Context, *request) (*response, error) {
		return &response{Meta: &fnv1.ResponseMeta{Tag: word}}, nil
	}
}

func remote(t *testing.T, o pipeline.RemoteOptions) (pipeline.Runner, *pipeline.Remote) {
	t.Helper()
	r := pipeline.NewRemote(o)
	t.Cleanup(r.Close)
	return pipeline.Guard(r, pipeline.CallLimits{Timeout: 10 * time.Second}), r
}

func want(t *testing.T, runner pipeline.Runner, word string) {
	t.Helper()
	got, err := runner.Run(t.Context(), "f", &request{})
	if err != nil || got.GetMeta().GetTag() != word {
		t.Fatalf("want %s, got %v, %v", word, got, err)
	}
}

func TestRemoteKeepsConnections(t *testing.T) {
	now := time.Now()
	places := &atlas{at: map[string]pipeline.Endpoint{
		"f": {Target: rpc.Serve(t, saying("one"), function.Insecure()), Insecure: true},
		"g": {Target: rpc.Serve(t, saying("two"), function.Insecure()), Insecure: true},
	}}
	runner, r := remote(t, pipeline.RemoteOptions{Endpoints: places, Now: func() time.Time { return now }, IdleTimeout: time.Minute})
	want(t, runner, "one")
	want(t, runner, "one")
	if n := r.Connections(); n != 1 {
		t.Errorf("want one connection, got %d", n)
	}
	if _, err := runner.Run(t.Context(), "g", &request{}); err != nil || r.Connections() != 2 {
		t.Errorf("want another for another function, got %d, %v", r.Connections(), err)
	}
	now = now.Add(2 * time.Minute)
	want(t, runner, "one")
	if n := r.Connections(); n != 1 {
		t.Errorf("want what is not used to be closed, got %d", n)
	}
	places.set("f", places.at["g"])
	want(t, runner, "two")
	if n := r.Connections(); n != 1 {
		t.Errorf("want the former endpoint's connection closed, got %d", n)
	}
	if _, err := runner.Run(t.Context(), "h", &request{}); !errors.As(err, new(*pipeline.UnknownFunctionError)) {
		t.Errorf("want h to be unknown, got %v", err)
	}
	r.Close()
	if _, err := runner.Run(t.Context(), "f", &request{}); err == nil || r.Connections() != 0 {
		t.Errorf("want nothing after the end, got %v", err)
	}
}

func TestACallUnderWayIsNotCutOff(t *testing.T) {
	called, goOn := make(chan struct{}), make(chan struct{})
	slow := func(context.Context, *request) (*response, error) {
		close(called)
		<-goOn
		return &response{Meta: &fnv1.ResponseMeta{Tag: "old"}}, nil
	}
	places := &atlas{at: map[string]pipeline.Endpoint{"f": {Target: rpc.Serve(t, slow, function.Insecure()), Insecure: true}}}
	runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: places})
	answer := make(chan string)
	go func() {
		got, err := runner.Run(context.Background(), "f", &request{})
		answer <- got.GetMeta().GetTag()
		if err != nil {
			t.Error(err)
		}
	}()
	<-called
	places.set("f", pipeline.Endpoint{Target: rpc.Serve(t, saying("new"), function.Insecure()), Insecure: true})
	want(t, runner, "new")
	close(goOn)
	if got := <-answer; got != "old" {
		t.Errorf("want the old endpoint's answer, got %q", got)
	}
}

func TestV1beta1FunctionsAreCalled(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var methods []string
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		methods = append(methods, info.FullMethod)
		return next(ctx, r)
	}))
	fnv1.RegisterBetaFunctionRunnerServiceServer(server, older{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: &atlas{at: map[string]pipeline.Endpoint{"f": {Target: listener.Addr().String(), Insecure: true}}}})
	want(t, runner, "beta")
	want(t, runner, "beta")
	if len(methods) != 2 || methods[1] != "/apiextensions.fn.proto.v1beta1.FunctionRunnerService/RunFunction" {
		t.Errorf("want two calls by the older name, got %v", methods)
	}
}

type older struct {
	fnv1.UnimplementedFunctionRunnerServiceServer
}

func (older) RunFunction(ctx context.Context, r *request) (*response, error) {
	return saying("beta")(ctx, r)
}

func TestAFunctionIsServedByBothNames(t *testing.T) {
	connection, err := grpc.NewClient(rpc.Serve(t, saying("yes"), function.Insecure()), grpc.WithTransportCredentials(plain()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for name, call := range map[string]func() (*response, error){
		"stable": func() (*response, error) {
			return fnv1.NewFunctionRunnerServiceClient(connection).RunFunction(t.Context(), &request{})
		},
		"beta": func() (*response, error) { return fnv1.RunBeta(t.Context(), connection, &request{}) },
	} {
		if got, err := call(); err != nil || got.GetMeta().GetTag() != "yes" {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestRemoteContainsFunctions(t *testing.T) {
	cases := map[string]struct {
		run       function.Func
		code      string
		transient bool
	}{
		"One that hangs": {func(ctx context.Context, _ *request) (*response, error) { <-ctx.Done(); return nil, ctx.Err() }, "DeadlineExceeded", true},
		"One that floods": {func(context.Context, *request) (*response, error) {
			return &response{Results: []*fnv1.Result{{Message: strings.Repeat("x", 3<<20)}}}, nil
		}, "ResourceExhausted", false},
		"One that panics": {func(context.Context, *request) (*response, error) { panic("oh") }, "Internal", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := pipeline.NewRemote(pipeline.RemoteOptions{
				Endpoints: &atlas{at: map[string]pipeline.Endpoint{"f": {Target: rpc.Serve(t, tc.run, function.Insecure()), Insecure: true}}},
				MaxBytes:  1 << 20,
			})
			defer r.Close()
			_, err := pipeline.Guard(r, pipeline.CallLimits{Timeout: 500 * time.Millisecond}).Run(t.Context(), "f", &request{})
			if call, ok := err.(*pipeline.CallError); !ok || call.Code != tc.code {
				t.Errorf("want %s, got %v", tc.code, err)
			}
			if got := (&pipeline.Failure{Err: err}).IsTransient(); got != tc.transient {
				t.Errorf("want transient %t: %v", tc.transient, err)
			}
		})
	}
}

func TestAFunctionThatIsNotThereFailsAtOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: &atlas{at: map[string]pipeline.Endpoint{"f": {Target: listener.Addr().String(), Insecure: true}}}})
	_, err = runner.Run(t.Context(), "f", &request{})
	if call, ok := err.(*pipeline.CallError); !ok || call.Code != "Unavailable" {
		t.Errorf("want it unavailable, got %v", err)
	}
}

// TestValuesOfAResponseAreBounded has a function respond with few bytes that would take much memory.
func TestValuesOfAResponseAreBounded(t *testing.T) {
	many := make([]*structpb.Value, 1_000_001)
	for i := range many {
		many[i] = &structpb.Value{}
	}
	large := func(context.Context, *request) (*response, error) {
		return &response{Context: &structpb.Struct{Fields: map[string]*structpb.Value{"list": structpb.NewListValue(&structpb.ListValue{Values: many})}}}, nil
	}
	places := &atlas{at: map[string]pipeline.Endpoint{"f": {Target: rpc.Serve(t, large, function.Insecure()), Insecure: true}}}
	runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: places})
	got, err := runner.Run(t.Context(), "f", &request{})
	if !errors.As(err, new(*pipeline.ResponseError)) || !strings.Contains(err.Error(), "has more than 1000000 values") {
		t.Errorf("want the response refused, got %d bytes, %v", proto.Size(got), err)
	}
}
