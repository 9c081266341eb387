package main

import (
	"context"
	"fmt"
)

// measureComposite measures composites of five ConfigMaps that two built-in functions compose:
// their creation, idle time, changes and deletion.
func measureComposite(ctx context.Context, b *bench) error {
	f, err := b.flats(ctx, "Composed", "composeds")
	if err != nil {
		return err
	}
	defer f.seen.stop()
	const few = 30
	if _, err := f.create(ctx, "warm", few); err != nil {
		return err
	}
	if _, err := f.delete(ctx, "warm", few); err != nil {
		return err
	}
	var made rounds
	if err := f.createByEngine(ctx, 0, &made); err != nil {
		return err
	}
	b.add(row{
		Work: "create a composite of 5 resources by 2 built-in functions", Unit: "requests", Budget: 9,
		Value:  float64(made.requests.of(work)) / float64(b.instances),
		Detail: fmt.Sprintf("%.1f ms each when %d are created", milliseconds(made.created.engine[0].wall)/float64(b.instances), b.instances),
	})
	return f.measureChanges(ctx, roundPrefix(0))
}
