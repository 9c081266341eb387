package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

type (
	request  = fnv1.RunFunctionRequest
	response = fnv1.RunFunctionResponse
)

func TestGuard(t *testing.T) {
	cases := map[string]struct {
		reason string
		run    pipeline.Func
		want   string
	}{
		"A function that hangs": {
			"the call ends at the limit, even if the function continues",
			func(context.Context, *request) (*response, error) { select {} },
			"the call failed: DeadlineExceeded: no response within 5s",
		},
		"A function that stops when it is cancelled": {
			"who set the deadline knows best that it has passed",
			func(ctx context.Context, _ *request) (*response, error) { <-ctx.Done(); return nil, ctx.Err() },
			"the call failed: DeadlineExceeded: no response within 5s",
		},
		"A function that panics": {
			"it fails and nothing else does",
			func(context.Context, *request) (*response, error) { panic("oh") },
			"the function failed with a panic with a string",
		},
		"A function that makes a mistake": {
			"its text helps to find it",
			func(context.Context, *request) (*response, error) {
				var none []*response
				return none[len(none)], nil
			},
			"the function failed with a panic: runtime error: index out of range [0] with length 0",
		},
		"A function that fails at length": {
			"a status has limits",
			func(context.Context, *request) (*response, error) {
				return nil, errors.New(strings.Repeat("é", 10_000))
			},
			"the call failed: Unknown: " + strings.Repeat("é", 2046) + "…",
		},
		"A function that controls a terminal": {
			"its text is shown on one",
			func(context.Context, *request) (*response, error) { return nil, errors.New("\x1b[2Jdenied\nREADY\xff") },
			`the call failed: Unknown: \x1b[2Jdenied READY\xff`,
		},
		"A function that answers nothing": {
			"nothing is no answer",
			func(context.Context, *request) (*response, error) { return nil, nil },
			"the function's response is missing",
		},
		"A function that floods": {
			"what it says is not even looked at",
			func(context.Context, *request) (*response, error) {
				return &response{Results: []*fnv1.Result{{Message: strings.Repeat("x", 10_000)}}}, nil
			},
			"the function's response has 10006 bytes, over the limit of 5000",
		},
		"A function that fails": {
			"its own words are passed on",
			func(context.Context, *request) (*response, error) { return nil, errors.New("no database") },
			"the call failed: Unknown: no database",
		},
		"A function that fails with a code": {
			"gRPC's words are passed on",
			func(context.Context, *request) (*response, error) {
				return nil, status.Error(codes.Unavailable, "gone")
			},
			"the call failed: Unavailable: gone",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			test := synctest.Test
			if name == "A function that hangs" { // for good: no bubble would ever end
				test = func(t *testing.T, f func(*testing.T)) { f(t) }
				tc.want = strings.Replace(tc.want, "5s", "1ms", 1)
			}
			test(t, func(t *testing.T) {
				limits := pipeline.CallLimits{Timeout: 5 * time.Second, MaxBytes: 5000}
				if strings.HasSuffix(tc.want, "1ms") {
					limits.Timeout = time.Millisecond
				}
				functions := &pipeline.Functions{}
				functions.Register("f", tc.run)
				_, err := pipeline.Guard(functions, limits).Run(t.Context(), "f", &request{})
				if err == nil || err.Error() != tc.want {
					t.Errorf("%s:\nwant %s\ngot  %v", tc.reason, tc.want, err)
				}
			})
		})
	}
}

func TestGuardRefusesHugeRequests(t *testing.T) {
	functions := &pipeline.Functions{}
	functions.Register("f", func(context.Context, *request) (*response, error) { return &response{}, nil })
	_, err := pipeline.Guard(functions, pipeline.CallLimits{MaxBytes: 10}).Run(t.Context(), "f", tagged(strings.Repeat("x", 100)))
	if call, ok := err.(*pipeline.CallError); !ok || call.Code != "TooLarge" {
		t.Errorf("want it refused, got %v", err)
	}
}

func TestACanceledCallReturnsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		functions := &pipeline.Functions{}
		functions.Register("f", func(ctx context.Context, _ *request) (*response, error) { <-ctx.Done(); return nil, ctx.Err() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := pipeline.Guard(functions, pipeline.CallLimits{}).Run(ctx, "f", &request{})
		if call, ok := err.(*pipeline.CallError); !ok || !errors.Is(err, context.DeadlineExceeded) || call.Code != "Canceled" {
			t.Errorf("want a call that was given up, got %v", err)
		}
	})
}

func TestFunctionsOwnTheirRequests(t *testing.T) {
	functions := &pipeline.Functions{}
	functions.Register("f", func(_ context.Context, r *request) (*response, error) {
		r.Meta.Tag = "changed"
		return &response{}, nil
	})
	r := tagged("tag")
	if _, err := functions.Run(t.Context(), "f", r); err != nil || r.GetMeta().GetTag() != "tag" {
		t.Errorf("want the request as it was, got %v, %v", r, err)
	}
	functions.Register("f", nil)
	if _, err := functions.Run(t.Context(), "f", r); err == nil {
		t.Error("want the function forgotten")
	}
}

func TestTheFirstRunnerThatKnowsAFunctionRunsIt(t *testing.T) {
	named := func(name string, functions ...string) *pipeline.Functions {
		out := &pipeline.Functions{}
		for _, f := range functions {
			out.Register(f, func(context.Context, *request) (*response, error) {
				return &response{Meta: &fnv1.ResponseMeta{Tag: name}}, nil
			})
		}
		return out
	}
	all := pipeline.FirstOf{named("first", "a"), named("second", "a", "b")}
	for function, want := range map[string]string{"a": "first", "b": "second"} {
		got, err := all.Run(t.Context(), function, &request{})
		if err != nil || got.GetMeta().GetTag() != want {
			t.Errorf("%s: want it run by the %s, got %v, %v", function, want, got, err)
		}
	}
	_, err := pipeline.Guard(all, pipeline.CallLimits{}).Run(t.Context(), "c", &request{})
	if unknown, ok := err.(*pipeline.UnknownFunctionError); !ok || unknown.Function != "c" {
		t.Errorf("want c to be unknown, got %v", err)
	}
}

func TestIsTransient(t *testing.T) {
	cases := map[string]struct {
		err  error
		want bool
	}{
		"A function that cannot be reached":  {&pipeline.CallError{Code: "Unavailable"}, true},
		"A function that takes too long":     {&pipeline.CallError{Code: "DeadlineExceeded"}, true},
		"A request that is too large":        {&pipeline.CallError{Code: "TooLarge"}, false},
		"A function at its limit of calls":   {&pipeline.CallError{Code: "ResourceExhausted", Message: "try later"}, true},
		"A program that is no function":      {&pipeline.CallError{Code: "Unimplemented"}, false},
		"A requirement that cannot be read":  {&pipeline.FetchError{Err: errors.New("no")}, true},
		"A function that says it has failed": {&pipeline.FatalError{}, false},
		"A function that is not installed":   {&pipeline.UnknownFunctionError{}, false},
	}
	for name, tc := range cases {
		if got := (&pipeline.Failure{Err: tc.err}).IsTransient(); got != tc.want {
			t.Errorf("%s: want %t", name, tc.want)
		}
	}
}
