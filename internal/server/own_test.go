package server

import (
	"context"
	"errors"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// calls counts calls.
type calls int

func (c *calls) Run(context.Context, string, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	*c++
	return nil, nil
}

func TestNoFunctionIsCalledAfterTheTenure(t *testing.T) {
	tenure := &fence.Tenure{}
	ctx := fence.With(t.Context(), tenure)
	var c calls
	runner := ownFunctions{&c}
	if _, err := runner.Run(ctx, "f", nil); err != nil || c != 1 {
		t.Errorf("during the tenure: %d calls, %v", c, err)
	}
	tenure.End()
	if _, err := runner.Run(ctx, "f", nil); !errors.Is(err, fence.ErrNotOwner) || c != 1 {
		t.Errorf("after the tenure: %d calls, %v", c, err)
	}
	if _, err := runner.Run(t.Context(), "f", nil); err != nil || c != 2 {
		t.Errorf("without sharding: %d calls, %v", c, err)
	}
}
