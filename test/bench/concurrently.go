package main

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// concurrently calls do for the numbers from 0 to n-1, with the given number of workers.
func concurrently(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}
