package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestTheDelayOfABusyServer reads the delay of answers as the API server's priority and fairness sends them.
func TestTheDelayOfABusyServer(t *testing.T) {
	busy := apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "PATCH", schema.GroupResource{Resource: "configmaps"}, "a", "Too many requests, please try again later.", 4, true)
	cases := map[string]struct {
		err  error
		want time.Duration
	}{
		"A busy server":                         {busy, 4 * time.Second},
		"A busy server, with its circumstances": {fmt.Errorf("a: ConfigMap shop: %w", busy), 4 * time.Second},
		"Among other errors":                    {errors.Join(errors.New("b"), busy), 4 * time.Second},
		"A server that says no delay":           {apierrors.NewInternalError(errors.New("no")), 0},
		"No answer":                             {context.DeadlineExceeded, 0},
	}
	for name, tc := range cases {
		if got := suggestedDelay(tc.err); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
