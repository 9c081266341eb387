package packages

import (
	"strings"
	"testing"

	ops "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAPackageInstallsOperations: they run, and their function is a package that is for operations only, which no composition can call.
func TestAPackageInstallsOperations(t *testing.T) {
	w := newWorld(t)
	w.operations = &server.OperationOptions{Namespace: w.namespace, ServiceAccount: &ops.ServiceAccountReference{Namespace: w.namespace, Name: "default"}}
	capable := strings.Replace(w.meta("Function", "function-operate"), "capabilities: []", "capabilities: [operation]", 1)
	w.push(t, "org/function-operate:v1.0.0", answering(t, "done"), capable)
	spec := "{pipeline: [{step: run, functionRef: {name: org-function-operate}}]}"
	w.push(t, "org/maintenance:v1.0.0", nil, w.meta("Configuration", "maintenance", "function=org/function-operate >=1"),
		"{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: packaged}, spec: "+spec+"}",
		"{apiVersion: ops.crossplane.io/v1alpha1, kind: CronOperation, metadata: {name: packaged}, spec: {schedule: 0 0 30 2 *, operationTemplate: {spec: "+spec+"}}}")
	c := w.start(t, w.config)
	w.install(t, "Configuration", "maintenance", "org/maintenance:v1.0.0")
	w.Await(t, configurationKind, "", "maintenance", healthy)
	kind := ops.GroupVersion.WithKind(ops.OperationKind)
	o := w.Await(t, kind, "", "packaged", suite.HasCondition("Succeeded", "True", "PipelineSuccess"))
	if len(o.GetOwnerReferences()) == 0 {
		t.Error("no package owns the Operation")
	}
	w.Await(t, ops.GroupVersion.WithKind(ops.CronOperationKind), "", "packaged", suite.HasCondition("Scheduling", "True", "ScheduleActive"))
	if got := call(t.Context(), c, "org-function-operate"); !strings.Contains(got, "lacks the capability composition") {
		t.Errorf("a composition calls it: %s", got)
	}
	w.Delete(t, kind, "", "packaged")
	w.Delete(t, ops.GroupVersion.WithKind(ops.CronOperationKind), "", "packaged")
}
