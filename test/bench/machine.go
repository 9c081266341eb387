package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machine describes the machine on which a run was measured.
type machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Memory     string `json:"memory"`
	System     string `json:"system"`
	Go         string `json:"go"`
	Kubernetes string `json:"kubernetes"`
}

func (b *bench) machine(context.Context) (machine, error) {
	version, err := b.discovery.ServerVersion()
	if err != nil {
		return machine{}, err
	}
	return machine{
		CPU:        firstValue("/proc/cpuinfo", "model name"),
		Cores:      runtime.NumCPU(),
		Memory:     firstValue("/proc/meminfo", "MemTotal"),
		System:     runtime.GOOS + "/" + runtime.GOARCH,
		Go:         runtime.Version(),
		Kubernetes: version.GitVersion,
	}, nil
}

// firstValue returns the value of the first line "key: value" of a file; "unknown" if there is none.
func firstValue(path, key string) string {
	file, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if k, v, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// resident is the resident memory of a process, in MiB.
func resident(pid int) (float64, error) {
	text := firstValue(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	kibibytes, err := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("resident memory of process %d: %w", pid, err)
	}
	return kibibytes / 1024, nil
}
