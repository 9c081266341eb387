package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// counted counts the calls of a function.
type counted struct {
	sync.Mutex
	calls int
	run   pipeline.Func
}

func (c *counted) Run(ctx context.Context, _ string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	c.Lock()
	c.calls++
	c.Unlock()
	return c.run(ctx, request)
}

func tagged(tag string) *fnv1.RunFunctionRequest {
	return &fnv1.RunFunctionRequest{Meta: &fnv1.RequestMeta{Tag: tag}}
}

// cacheable responds with a TTL.
func cacheable(ttl time.Duration) pipeline.Func {
	return func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: request.GetMeta().GetTag(), Ttl: durationpb.New(ttl)}}, nil
	}
}

func TestCacheRemembers(t *testing.T) {
	fails := func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return nil, errors.New("no")
	}
	fatal := func(ctx context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		response, err := cacheable(time.Minute)(ctx, request)
		response.Results = []*fnv1.Result{{Severity: fnv1.Severity_SEVERITY_FATAL}}
		return response, err
	}
	cases := map[string]struct {
		reason string
		run    pipeline.Func
		second func(revision *string) (function, tag string)
		after  time.Duration
		calls  int
	}{
		"An equal request costs no call":        {"it was answered, for a minute", cacheable(time.Minute), nil, 59 * time.Second, 1},
		"An answer is forgotten after its time": {"the function is asked again when the time is over", cacheable(time.Minute), nil, time.Minute, 2},
		"Another request is another":            {"its tag differs", cacheable(time.Minute), func(*string) (string, string) { return "f", "other" }, 0, 2},
		"Another function is another":           {"functions answer differently", cacheable(time.Minute), func(*string) (string, string) { return "g", "tag" }, 0, 2},
		"Another revision is another function":  {"people fix functions", cacheable(time.Minute), func(r *string) (string, string) { *r = "2"; return "f", "tag" }, 0, 2},
		"An answer without a time is not kept": {"the function has not allowed it", func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return &fnv1.RunFunctionResponse{}, nil
		}, nil, 0, 2},
		"An answer for no time is not kept":      {"the function forbids it", cacheable(0), nil, 0, 2},
		"An answer for a negative time is not":   {"it makes no sense", cacheable(-time.Second), nil, 0, 2},
		"A failure is not kept":                  {"it may have passed", fails, nil, 0, 2},
		"A fatal result is not kept":             {"what made it fatal may have passed", fatal, nil, 0, 2},
		"A request without a tag passes through": {"nothing says what it is equal to", cacheable(time.Minute), func(*string) (string, string) { return "f", "" }, 0, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				revision := "1"
				next := &counted{run: tc.run}
				cache := pipeline.NewCache(next, func(string) string { return revision }, 1<<20, time.Now)
				_, _ = cache.Run(t.Context(), "f", tagged("tag"))
				<-time.After(tc.after) // the bubble's time
				function, tag := "f", "tag"
				if tc.second != nil {
					function, tag = tc.second(&revision)
				}
				_, _ = cache.Run(t.Context(), function, tagged(tag))
				if next.calls != tc.calls {
					t.Errorf("%s: want %d calls, got %d", tc.reason, tc.calls, next.calls)
				}
			})
		})
	}
}

func TestCachedAnswersLastForWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := pipeline.NewCache(&counted{run: cacheable(time.Minute)}, func(string) string { return "" }, 1<<20, time.Now)
		_, _ = cache.Run(t.Context(), "f", tagged("tag"))
		<-time.After(20 * time.Second) // the bubble's time
		response, err := cache.Run(t.Context(), "f", tagged("tag"))
		if err != nil || response.GetMeta().GetTtl().AsDuration() != 40*time.Second {
			t.Errorf("want 40 s, got %v, %v", response, err)
		}
	})
}

func TestEqualCallsAreMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		next := &counted{run: func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			<-goOn
			return &fnv1.RunFunctionResponse{}, nil
		}}
		cache := pipeline.NewCache(next, func(string) string { return "" }, 1<<20, time.Now)
		first, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 3)
		for _, ctx := range []context.Context{first, t.Context(), t.Context()} {
			go func() {
				_, err := cache.Run(ctx, "f", tagged("tag"))
				errs <- err
			}()
			synctest.Wait()
		}
		cancel() // whoever came first does not take the others with him
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("want the first to be canceled, got %v", err)
		}
		close(goOn)
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if stats := cache.Stats(); next.calls != 1 || stats.Misses != 1 || stats.Joined != 2 || stats.Entries != 0 {
			t.Errorf("want one call that two joined, got %d: %+v", next.calls, stats)
		}
	})
}

func TestACallWithoutWaitersIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		next := &counted{run: func(ctx context.Context, _ *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}}
		cache := pipeline.NewCache(next, func(string) string { return "" }, 1<<20, time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cache.Run(ctx, "f", tagged("tag")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-ended
	})
}

func TestCacheIsBounded(t *testing.T) {
	big := func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		size := 4000
		if request.GetMeta().GetTag() == "huge" {
			size = 20_000
		}
		return &fnv1.RunFunctionResponse{
			Meta:    &fnv1.ResponseMeta{Ttl: durationpb.New(time.Minute)},
			Results: []*fnv1.Result{{Message: strings.Repeat("x", size)}},
		}, nil
	}
	next := &counted{run: big}
	cache := pipeline.NewCache(next, func(string) string { return "" }, 10_000, time.Now)
	for _, tag := range []string{"a", "b", "a", "c", "huge", "a", "c", "b"} {
		if _, err := cache.Run(t.Context(), "f", tagged(tag)); err != nil {
			t.Fatal(err)
		}
		if stats := cache.Stats(); stats.Bytes > 10_000 {
			t.Errorf("want at most 10,000 bytes, got %+v", stats)
		}
	}
	// a, b, c and huge once; b again, since c took its place: it was used less lately than a.
	if stats := cache.Stats(); next.calls != 5 || stats.Hits != 3 || stats.Entries != 2 {
		t.Errorf("want the least used to go: %d calls, %+v", next.calls, stats)
	}
}

func TestCacheCountsTheMemoryOfValues(t *testing.T) {
	many := make([]*structpb.Value, 2000)
	for i := range many {
		many[i] = &structpb.Value{}
	}
	next := &counted{run: func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return &fnv1.RunFunctionResponse{
			Meta:    &fnv1.ResponseMeta{Ttl: durationpb.New(time.Minute)},
			Context: &structpb.Struct{Fields: map[string]*structpb.Value{"list": structpb.NewListValue(&structpb.ListValue{Values: many})}},
		}, nil
	}}
	for limit, entries := range map[int]int{100_000: 0, 300_000: 1} {
		cache := pipeline.NewCache(next, func(string) string { return "" }, limit, time.Now)
		if _, err := cache.Run(t.Context(), "f", tagged("tag")); err != nil {
			t.Fatal(err)
		}
		if stats := cache.Stats(); stats.Entries != entries {
			t.Errorf("a cache of %d bytes: %+v", limit, stats)
		}
	}
}

func TestARunnerThatPanicsUnderTheCache(t *testing.T) {
	next := &counted{run: func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) { panic("oh") }}
	cache := pipeline.NewCache(next, func(string) string { return "" }, 1000, time.Now)
	_, err := cache.Run(t.Context(), "f", tagged("tag"))
	if _, ok := err.(*pipeline.PanicError); !ok {
		t.Errorf("want a PanicError, got %v", err)
	}
}
