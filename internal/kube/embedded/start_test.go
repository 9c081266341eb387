package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStartSaysWhyItFailed(t *testing.T) {
	cases := map[string]struct {
		program string // a shell script
		limit   time.Duration
		logs    string
		want    string // a part of the error, in which DIR is the data directory
	}{
		"the program ends with a message": {
			program: `echo "the port is taken" >&2; exit 3`,
			limit:   time.Minute,
			want:    "the port is taken",
		},
		"the program ends with an error of its own": {
			program: `echo "espalier-controlplane: the port is taken" >&2; exit 1`,
			limit:   time.Minute,
			want:    "DIR: the port is taken",
		},
		"the program waits before it ends": {
			program: `echo "waiting for the other one"; echo "espalier-controlplane: it is still there" >&2; exit 1`,
			limit:   time.Minute,
			logs:    "waiting for the other one\n",
			want:    "DIR: it is still there",
		},
		"the program ends without a word, but has logged": {
			program: `echo "W0101 no space left" > "${1#--data-dir=}/controlplane.log"; exit 3`,
			limit:   time.Minute,
			want:    "no space left",
		},
		"the program prints something else than being ready": {
			program: `echo usage; exit 0`,
			limit:   time.Minute,
			logs:    "usage\n",
			want:    "before it was ready",
		},
		"the program takes longer than it may": {
			program: `echo "E0101 waiting for disk" > "${1#--data-dir=}/controlplane.log"; exec sleep 60`,
			limit:   200 * time.Millisecond,
			want:    "waiting for disk",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := filepath.Join(dir, "program")
			if err := os.WriteFile(script, []byte("#!/bin/sh\n"+tc.program+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			var log strings.Builder
			_, err := Start(ctx, Options{Program: script, DataDir: dir, Log: &log})
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), tc.want) {
				t.Errorf("error %v does not say %q", err, tc.want)
			}
			if log.String() != tc.logs {
				t.Errorf("logs %q, not %q", log.String(), tc.logs)
			}
		})
	}
}

func TestStartNeedsADataDirectory(t *testing.T) {
	if _, err := Start(t.Context(), Options{}); err == nil {
		t.Error("no error")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var all strings.Builder
	log := &tail{next: &all}
	fmt.Fprintln(log, "line", 0)
	if all.Len() > 0 {
		t.Errorf("passed on before the release: %s", all.String())
	}
	log.release()
	for i := range 2000 {
		fmt.Fprintln(log, "line", i)
	}
	if got := log.String(); len(got) > tailBytes || !strings.HasSuffix(got, "line 1999") {
		t.Errorf("kept %d bytes, ending in %q", len(got), got[len(got)-10:])
	}
	if !strings.HasPrefix(all.String(), "line 0\nline 0\nline 1\n") {
		t.Error("the beginning was not passed on")
	}
}
