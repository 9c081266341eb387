package main

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// concurrently does something for each of the first n numbers, with so many
// workers at once.
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
