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

// cpuTime is the CPU time of the processes that are measured. Unlike wall time, it hardly depends on the other load of the machine.
type cpuTime struct {
	server time.Duration // of the API server with etcd
	own    time.Duration // of this process: the controllers or the plain client, and the simulated user
}

func (p cpuTime) minus(q cpuTime) cpuTime {
	return cpuTime{p.server - q.server, p.own - q.own}
}

func (p cpuTime) plus(q cpuTime) cpuTime { return cpuTime{p.server + q.server, p.own + q.own} }

// cpuTime reads the CPU times since the processes started.
func (b *bench) cpuTime(ctx context.Context) (cpuTime, error) {
	metrics, err := b.metrics(ctx)
	if err != nil {
		return cpuTime{}, err
	}
	var p cpuTime
	for lines := bufio.NewScanner(bytes.NewReader(metrics)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); ok {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return cpuTime{}, fmt.Errorf("metrics of the API server: %w", err)
			}
			p.server = time.Duration(seconds * float64(time.Second))
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return cpuTime{}, err
	}
	p.own = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return p, nil
}
