package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheArchiveRuns builds the archive of this platform, and runs what is in it as somebody without a compiler would: 'espalier up'
// serves a definition.
func TestTheArchiveRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	here := platform{runtime.GOOS, runtime.GOARCH}
	o, err := parse(ctx, "release", here.String(), []string{"--version=v1.2.3", "--revision=abc", "--epoch=1700000000"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := buildAll(ctx, o, program, controlPlane)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := printAll(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(texts.crds), "name: resourcegraphdefinitions.kro.run\n") {
		t.Errorf("the CustomResourceDefinitions are %q", texts.crds)
	}
	contents, err := archiveFiles(o, all[0], all, texts.completions)
	if err != nil {
		t.Fatal(err)
	}
	_, packed, err := archive(o, all[0], contents)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	unpack(t, packed, directory)

	up := exec.CommandContext(ctx, filepath.Join(directory, program), "up", "--data-dir", filepath.Join(t.TempDir(), "data"))
	up.Dir, up.Env, up.Stderr = directory, []string{"HOME=" + t.TempDir(), "PATH=" + t.TempDir()}, t.Output()
	up.Cancel = func() error { return up.Process.Signal(syscall.SIGINT) }
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	kubeconfig := ""
	for lines.Scan() && lines.Text() != "ready" {
		if path, found := strings.CutPrefix(lines.Text(), "export KUBECONFIG="); found {
			kubeconfig = path
		}
	}
	status := exec.CommandContext(ctx, filepath.Join(directory, program), "status", "--kubeconfig", kubeconfig)
	out, err := status.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func unpack(t *testing.T, archive []byte, directory string) {
	t.Helper()
	r := reader(t, archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(directory, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
