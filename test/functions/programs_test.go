package functions

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	catalog "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/sdk/function"
)

// TestAKilledProgramIsRestarted and what its predecessor has answered is not
// repeated.
func TestAKilledProgramIsRestarted(t *testing.T) {
	w := newTestCatalog(t, catalog.Options{Environment: []string{life + "=1"}, Local: map[string]catalog.LocalFunction{
		"program": {Program: os.Args[0]}, "address": {Address: rpc.Serve(t, answering("here"), function.Insecure())},
	}})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: program}, spec: {package: example.org/program:v1}}")
	w.awaitConditions(t, "program", "True ActivePackageRevision", "True HealthyPackageRevision")
	first := w.call(t, "program")
	id, err := strconv.Atoi(first)
	if err != nil || id == os.Getpid() {
		t.Fatalf("it is not a program of its own: %s", first)
	}
	if again := w.call(t, "program"); again != first || w.Functions.CacheStats().Hits != 1 {
		t.Errorf("an equal request is not answered from memory: %s, %+v", again, w.Functions.CacheStats())
	}
	told := w.changes("program")
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.await(t, "another start of the program answers", func() bool {
		next, err := strconv.Atoi(w.call(t, "program"))
		return err == nil && next != id
	})
	if w.changes("program") <= told {
		t.Error("nobody was told that it was started again")
	}
	w.awaitConditions(t, "program", "True ActivePackageRevision", "True HealthyPackageRevision")
	if got := w.call(t, "address"); got != "here" {
		t.Errorf("at the address: %s", got)
	}
	w.Delete(t, catalog.FunctionKind, "", "program")
}

// TestAProgramThatDoesNotStartIsReported on the Function.
func TestAProgramThatDoesNotStartIsReported(t *testing.T) {
	w := newTestCatalog(t, catalog.Options{Local: map[string]catalog.LocalFunction{"broken": {Program: "/nowhere/at/all"}}})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: broken}, spec: {package: example.org/broken:v1}}")
	w.awaitConditions(t, "broken", "True ActivePackageRevision", "False UnhealthyPackageRevision")
	w.expectAnswer(t, "broken", "/nowhere/at/all is not running")
	w.Delete(t, catalog.FunctionKind, "", "broken")
}
