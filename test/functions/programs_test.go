package functions

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	catalog "github.com/espalier-dev/espalier/internal/functions/packages"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/sdk/function"
)

// TestAProgramThatIsKilledIsCalledAgain and what its predecessor has answered isn't
// repeated.
func TestAProgramThatIsKilledIsCalledAgain(t *testing.T) {
	t.Setenv(life, "1")
	w := begin(t, catalog.Options{Given: map[string]catalog.Given{
		"program": {Program: os.Args[0]}, "address": {Address: rpc.Serve(t, saying("here"), function.Insecure())},
	}})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: program}, spec: {package: example.org/program:v1}}")
	w.reports(t, "program", "True ActivePackageRevision", "True HealthyPackageRevision")
	first := w.call(t, "program")
	id, err := strconv.Atoi(first)
	if err != nil || id == os.Getpid() {
		t.Fatalf("it isn't a program of its own: %s", first)
	}
	if again := w.call(t, "program"); again != first || w.Functions.Stats().Hits != 1 {
		t.Errorf("an equal request isn't answered from memory: %s, %+v", again, w.Functions.Stats())
	}
	told := w.told("program")
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.until(t, "another start of the program answers", func() bool {
		next, err := strconv.Atoi(w.call(t, "program"))
		return err == nil && next != id
	})
	if w.told("program") <= told {
		t.Error("nobody was told that it was started again")
	}
	w.reports(t, "program", "True ActivePackageRevision", "True HealthyPackageRevision")
	if got := w.call(t, "address"); got != "here" {
		t.Errorf("at the address: %s", got)
	}
	w.Delete(t, catalog.FunctionKind, "", "program")
}

// TestAProgramThatCannotBeStartedIsTold on the Function.
func TestAProgramThatCannotBeStartedIsTold(t *testing.T) {
	w := begin(t, catalog.Options{Given: map[string]catalog.Given{"broken": {Program: "/nowhere/at/all"}}})
	w.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: broken}, spec: {package: example.org/broken:v1}}")
	w.reports(t, "broken", "True ActivePackageRevision", "False UnhealthyPackageRevision")
	w.says(t, "broken", "/nowhere/at/all is not running")
	w.Delete(t, catalog.FunctionKind, "", "broken")
}
