package cluster_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

// watchCounter counts the open watches of impersonated users.
type watchCounter struct {
	next http.RoundTripper

	mu   sync.Mutex
	open map[string]int
}

func (w *watchCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	user := r.Header.Get("Impersonate-User")
	if err == nil && user != "" && strings.Contains(r.URL.RawQuery, "watch=true") {
		w.count(user, 1)
		context.AfterFunc(r.Context(), func() { w.count(user, -1) })
	}
	return response, err
}

func (w *watchCounter) count(user string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[user] += by
}

func (w *watchCounter) of(user string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[user]
}

// TestAnAccountEndsAfterItsLastUse follows the account of two definitions.
func TestAnAccountEndsAfterItsLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakekube.New()
		config := fake.Config()
		watches := &watchCounter{next: config.Transport, open: map[string]int{}}
		config = rest.CopyConfig(config)
		config.Transport = watches
		k, err := cluster.New(cluster.Options{Config: config, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		started := make(chan struct{})
		go func() { ended <- k.Run(ctx, func(context.Context) error { close(started); return nil }) }()
		<-started
		const user = "system:serviceaccount:team:builder"
		accountFor := func() *cluster.Account {
			t.Helper()
			a, err := k.AccountFor("team", "builder")
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}

		// Two definitions of it; instances of the first watch ConfigMaps.
		first := accountFor()
		first.Retain()
		first.Retain()
		instance := watch.Subscriber{Key: object.Key{Group: "example.org", Kind: "Site", Namespace: "team", Name: "x"}}
		lease := first.Hub.Begin(instance)
		lease.Watch(watch.ChildrenOf(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "uid"))
		lease.Commit()
		pass(time.Second)
		if watches.of(user) == 0 {
			t.Fatal("nothing is watched")
		}
		first.Release()
		pass(time.Hour)
		if accountFor() != first || watches.of(user) == 0 {
			t.Errorf("the account of a definition has ended; %d watches", watches.of(user))
		}

		// The last one is gone, and with it the instance.
		first.Hub.Forget(instance)
		first.Release()
		pass(5 * time.Minute)
		if got := watches.of(user); got != 0 {
			t.Errorf("%d watches of an account without a definition", got)
		}
		if accountFor() != first {
			t.Error("the account has ended while a reconcile may use it")
		}
		pass(15 * time.Minute)
		second := accountFor()
		if second == first {
			t.Fatal("the account is kept without a definition")
		}
		first.Release() // does not count for another
		second.Retain()
		pass(time.Hour)
		if accountFor() != second {
			t.Error("the second account has ended")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
