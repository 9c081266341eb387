package server

import (
	"context"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/kube/fence"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// ownFunctions calls no function for a composite that another replica reconciles: functions may have effects. A call in
// flight is cancelled with its context.
type ownFunctions struct{ pipeline.Runner }

func (o ownFunctions) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	if !fence.MayWrite(ctx) {
		return nil, fence.ErrNotOwner
	}
	return o.Runner.Run(ctx, name, request)
}
