package cluster

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/kube"
)

// Delays between attempts to prepare the start during an outage of the API server. A program that ended instead would be
// started again after up to five minutes by the kubelet.
const (
	firstStartDelay = 500 * time.Millisecond
	lastStartDelay  = 30 * time.Second
)

// retryOutage calls do until it succeeds, or fails for another reason than an outage of the API server. Do is called again
// from the beginning.
func retryOutage(ctx context.Context, log logr.Logger, do func(context.Context) error) error {
	for delay := firstStartDelay; ; delay = min(2*delay, lastStartDelay) {
		err := do(ctx)
		if !kube.IsOutage(err) || ctx.Err() != nil {
			return err
		}
		log.Info("The controllers cannot start yet: the API server does not answer, or is busy; retrying", "error", err.Error(), "delay", delay)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
