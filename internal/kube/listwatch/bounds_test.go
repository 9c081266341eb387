package listwatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// TestAWatchThatDoesNotBeginEnds opens watches of ten minutes at a server that answers nothing.
func TestAWatchThatDoesNotBeginEnds(t *testing.T) {
	for name, c := range map[string]struct {
		initial time.Duration
		options metav1.ListOptions
		want    time.Duration
	}{
		"a watch":                          {0, metav1.ListOptions{}, time.Minute},
		"a watch-list":                     {0, metav1.ListOptions{SendInitialEvents: ptr.To(true)}, time.Minute},
		"a watch, with a bound of its own": {15 * time.Second, metav1.ListOptions{}, 15 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			b := Bounds{Initial: c.initial}
			c.options.TimeoutSeconds = ptr.To[int64](600)
			_, err := b.Watch(t.Context(), c.options, func(ctx context.Context) (apiwatch.Interface, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			if took := time.Since(began); err == nil || took != c.want {
				t.Errorf("%s ended after %s with %v, want %s", name, took, err, c.want)
			}
		})
	}
}

// TestAWatchThatHasBegunStays waits long after the beginning of a watch.
func TestAWatchThatHasBegunStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bounds
		var during context.Context
		w, err := b.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: ptr.To[int64](600)}, func(ctx context.Context) (apiwatch.Interface, error) {
			during = ctx
			return apiwatch.NewFake(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(9 * time.Minute)
		if during.Err() != nil {
			t.Error("the watch has ended")
		}
		w.Stop()
		if during.Err() == nil {
			t.Error("the request goes on after Stop")
		}
	})
}
