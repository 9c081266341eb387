package main

import (
	"context"
	"fmt"
	"time"
)

// measuredRequests are the requests that the API server counted during a scenario.
type measuredRequests struct {
	what     string
	objects  int
	requests requests
}

// record adds the requests of a round to those of the scenario.
func (b *bench) record(c measuredRequests) {
	for i, known := range b.counts {
		if known.what == c.what {
			b.counts[i] = measuredRequests{c.what, known.objects + c.objects, known.requests.plus(c.requests)}
			return
		}
	}
	b.counts = append(b.counts, c)
}

// countRequests calls do, waits until no more requests come, and returns all requests since then
// except for own, those of the benchmark itself.
func (b *bench) countRequests(ctx context.Context, what string, objects int, own requests, do func() error) (requests, error) {
	before, err := b.awaitQuiet(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := b.awaitQuiet(ctx)
	if err != nil {
		return nil, err
	}
	r := after.minus(before).minus(own)
	b.record(measuredRequests{what, objects, r})
	return r, nil
}

// quietPeriod is how long no request may come for a scenario to count as ended.
const quietPeriod = 300 * time.Millisecond

// awaitQuiet returns all requests so far once no more come, or after 20 periods: controllers that
// never come to rest are measured as well.
func (b *bench) awaitQuiet(ctx context.Context) (requests, error) {
	ctx, cancel := context.WithTimeout(ctx, b.waitTimeout())
	defer cancel()
	last, err := b.readRequests(ctx)
	for range 20 {
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(quietPeriod):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		now, err := b.readRequests(ctx)
		if err != nil {
			return nil, err
		}
		if len(now.minus(last)) == 0 {
			return now, nil
		}
		last = now
	}
	return last, nil
}

func (b *bench) readRequests(ctx context.Context) (requests, error) {
	raw, err := b.metrics(ctx)
	if err != nil {
		return nil, err
	}
	return parseRequests(raw)
}

// metrics returns the API server's metrics.
func (b *bench) metrics(ctx context.Context) ([]byte, error) {
	raw, err := b.discovery.RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return raw, nil
}
