package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestTheStartIsRetriedDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, lost := 0, errors.New("the signing key is missing")
		began := time.Now()
		err := retryOutage(t.Context(), logr.Discard(), func(context.Context) error {
			if attempts++; attempts > 20 {
				return lost
			}
			return fmt.Errorf("install: %w", apierrors.NewServiceUnavailable("starting"))
		})
		if !errors.Is(err, lost) || attempts != 21 {
			t.Errorf("after %d attempts: %v", attempts, err)
		}
		if took := time.Since(began); took > 20*lastStartDelay {
			t.Errorf("the attempts took %s", took)
		}
	})
}

func TestARetryOfTheStartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := retryOutage(ctx, logr.Discard(), func(context.Context) error { return apierrors.NewTooManyRequests("busy", 1) })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
