package cloud_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestMain lets the tests be run as a process that makes buckets until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CLOUD_TO_FILL"); dir != "" {
		fill(dir)
	}
	os.Exit(m.Run())
}

// fill makes buckets and says so.
func fill(dir string) {
	c, err := cloud.Open(dir, cloud.Options{Behaviours: only(cloud.TypeBucket, cloud.Behaviour{Naming: cloud.ProviderAssigned})})
	for err == nil {
		var op cloud.Operation
		c.Shorten(1 << 14) // it is killed while it writes anew as well
		op, err = c.Create(cloud.CreateRequest{Scope: scope, Properties: cloud.Bucket{}})
		fmt.Println(op.Resource.ID)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestAKilledProcessLeavesWhatItHasAnswered(t *testing.T) {
	dir := t.TempDir()
	told := 0
	for round := range 5 {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), "CLOUD_TO_FILL="+dir)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			told++
			if n == 50+7*round {
				_ = process.Process.Kill()
			}
		}
		_ = process.Wait() // it was killed
	}
	c, err := cloud.Open(dir, cloud.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.Admin().Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	// Each process may have died between an effect and its answer, and a line that was
	// cut short counts as one.
	if n := len(all.Resources); n < told-5 || n > told+5 || told < 250 {
		t.Errorf("%d were told of and %d are there", told, n)
	}
	for i, r := range all.Resources {
		if r.Serial != int64(i+1) || r.State != cloud.Active {
			t.Fatalf("number %d is %+v", i, r)
		}
	}
}
