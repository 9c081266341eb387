package server

import (
	"context"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/telemetry"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// measuredFunctions measures the calls of functions, for the profile of the kind that is reconciled. Responses from the cache
// count as calls: they take as long as the composite waits for them.
type measuredFunctions struct{ next pipeline.Runner }

// Run calls a function. A call with a Fatal result has failed.
func (m measuredFunctions) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	kind := telemetry.ProfileOf(ctx)
	if kind == nil {
		return m.next.Run(ctx, name, request)
	}
	began := time.Now()
	response, err := m.next.Run(ctx, name, request)
	kind.ObserveCall(name, time.Since(began), err != nil || isFatal(response))
	return response, err
}

func isFatal(response *fnv1.RunFunctionResponse) bool {
	return slices.ContainsFunc(response.GetResults(), func(r *fnv1.Result) bool { return r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL })
}
