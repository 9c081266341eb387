package kube

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// RunReflector lists and watches until the context ends. Attempts are paced by a backoff of the caller's, which begins
// anew after a watch of a minute: Reflector.RunWithContext would pause for up to a minute after an outage of the API
// server. What the reflector logs about watches that end with an error, which are resumed, is for a verbose log.
func RunReflector(ctx context.Context, log logr.Logger, r *cache.Reflector, backoff func() *wait.Backoff) {
	ctx = logr.NewContext(ctx, log.V(1))
	for retry := backoff(); ctx.Err() == nil; {
		began := time.Now()
		if err := r.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			log.V(1).Info("the watch ended", "of", r.TypeDescription(), "reason", err.Error())
		}
		if time.Since(began) > time.Minute {
			retry = backoff()
		}
		pause := time.NewTimer(retry.Step())
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}
