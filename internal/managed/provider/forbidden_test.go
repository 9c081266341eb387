package provider_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// forbidding answers requests for things that they are forbidden, while it is set.
type forbidding struct {
	http.RoundTripper
	isSet atomic.Bool
}

func (f *forbidding) RoundTrip(r *http.Request) (*http.Response, error) {
	if !f.isSet.Load() || !strings.HasSuffix(r.URL.Path, "/t1s") {
		return f.RoundTripper.RoundTrip(r)
	}
	const answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "t1s is forbidden: the provider cannot list it"}`
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(answer)), Request: r,
	}, nil
}

// TestAForbiddenKindIsNotReportedAsServed activates kinds, of which the provider may not read one, and grants that later.
func TestAForbiddenKindIsNotReportedAsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(3)
		config := w.Config()
		f := &forbidding{RoundTripper: config.Transport}
		f.isSet.Store(true)
		config.Transport = f
		defer w.start(t, config)()
		w.Add(activate("net::*"))
		pass(time.Minute)
		ready := w.ready(activationKey)
		for _, want := range []string{"False Forbidden: net::T1: ", "espalier cloud rbac net::T1 | kubectl apply -f -"} {
			if !strings.Contains(ready, want) {
				t.Errorf("Ready does not say %q: %s", want, ready)
			}
		}
		w.Add(thingObject())
		f.isSet.Store(false)
		pass(10 * time.Minute)
		check(t, "Ready after the grant", w.ready(activationKey), "True Active: 3 kinds are served")
		check(t, "an object of the kind", w.ready(thingKey), "True Available: ")
		requests := len(w.RequestsSoFar())
		pass(20 * time.Minute)
		if all := w.sinceWithoutWatches(requests); len(all) > 0 {
			t.Errorf("at rest, there are requests: %v", all)
		}
	})
}
