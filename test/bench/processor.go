package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processor is CPU time. Unlike wall time, it hardly depends on the other load of the machine.
type processor struct {
	server time.Duration // of the API server with etcd
	here   time.Duration // of this process: the controllers or the plain client, and the simulated user
}

func (p processor) minus(q processor) processor {
	return processor{p.server - q.server, p.here - q.here}
}

// processor reads the CPU times so far.
func (b *bench) processor(ctx context.Context) (processor, error) {
	metrics, err := b.metrics(ctx)
	if err != nil {
		return processor{}, err
	}
	var p processor
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); ok {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return processor{}, fmt.Errorf("metrics of the API server: %w", err)
			}
			p.server = time.Duration(seconds * float64(time.Second))
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return processor{}, err
	}
	p.here = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return p, nil
}
