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
		before  string // in the log of the components
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
		"a full disk, as its own error": {
			program: `echo "espalier-controlplane: etcd: write member/wal: no space left on device" >&2; exit 1`,
			limit:   time.Minute,
			want:    "DIR: etcd: write member/wal: no space left on device; free space on the disk of DIR, or choose another directory with --data-dir",
		},
		"a full disk, in the log before a long stack": {
			program: `{ echo "panic: write: no space left on device"; seq 10000; } > "${1#--data-dir=}/controlplane.log"; exit 2`,
			limit:   time.Minute,
			want:    "DIR: no space left on device; free space on the disk of DIR, or choose another directory with --data-dir\nits log is DIR/controlplane.log",
		},
		"a full disk, at an earlier start": {
			program: `seq 9 >> "${1#--data-dir=}/controlplane.log"; exit 2`,
			before:  "panic: write: no space left on device\n",
			limit:   time.Minute,
			want:    "DIR: the process ended before it was ready\n1\n2",
		},
		"files of another user": {
			program: `echo "espalier-controlplane: open lock: permission denied" >&2; exit 1`,
			limit:   time.Minute,
			want:    "permission denied; DIR and its files must belong to the user",
		},
		"a disk that cannot be written to": {
			program: `echo "espalier-controlplane: open lock: read-only file system" >&2; exit 1`,
			limit:   time.Minute,
			want:    "read-only file system; choose a directory that can be written to with --data-dir",
		},
		"a port in use": {
			program: `echo "espalier-controlplane: listen tcp 127.0.0.1:1: bind: address already in use" >&2; exit 1`,
			limit:   time.Minute,
			want:    "address already in use; choose another port with --port",
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
			if err := os.WriteFile(logFile(dir), []byte(tc.before), 0o600); err != nil {
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

func TestAnEndLaterIsExplained(t *testing.T) {
	dir := t.TempDir()
	script, kubeconfig := filepath.Join(dir, "program"), filepath.Join(dir, "kubeconfig")
	for file, text := range map[string]string{
		script:     "#!/bin/sh\necho ready http://127.0.0.1:1\nread line\necho 'write: no space left on device' >> " + logFile(dir) + "\nexit 1\n",
		kubeconfig: "{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}",
	} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Start(t.Context(), Options{Program: script, DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Failure(); !strings.Contains(err.Error(), "the control plane has ended: no space left on device; free space") {
		t.Error(err)
	}
}

func TestADirectoryThatCannotBeWrittenTo(t *testing.T) {
	if err := tryToWrite(t.TempDir()); err != nil {
		t.Error(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer full.Close()
	_, err = full.WriteString("x")
	if c, ok := causeOf(err); !ok || !strings.HasPrefix(c.remedy, "free space") {
		t.Errorf("%v has no cause", err)
	}
	if _, ok := causeOf(os.ErrNotExist); ok {
		t.Error("a missing file has a cause")
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
