package main

import "context"

// measureComposite measures composites of five ConfigMaps that two built-in functions compose:
// their creation, idle time, changes and deletion.
func measureComposite(ctx context.Context, b *bench) error {
	f, err := b.flats(ctx, "Composed", ours("composeds"))
	if err != nil {
		return err
	}
	defer f.seen.stop()
	return f.measureLife(ctx, "create a composite of 5 resources by 2 built-in functions", 9)
}
