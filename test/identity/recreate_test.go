package identity

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var jobKind = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}

// task defines a kind with a Job, which cannot be changed, and instances of it.
func task(t *testing.T, more string) (s suite.Suite, put func(image string)) {
	t.Helper()
	s = suite.New(t)
	s.Apply(t, suite.Graph("Task", `spec: {image: string}, status: {image: "${job.spec.template.spec.containers[0].image}"}`, `
    - id: job
      readyWhen: ["${job.metadata.name != ''}"]
      template:
        apiVersion: batch/v1
        kind: Job
        metadata: {name: "${schema.metadata.name}"}
        spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: "${schema.spec.image}"}]}}}
`)+more)
	return s, func(image string) {
		t.Helper()
		s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Task\nmetadata: {name: x, namespace: $NS}\nspec: {image: "+image+"}\n")
	}
}

// isAnother waits for an object that is not the one before.
func isAnother(before *unstructured.Unstructured) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == before.GetUID() {
			return errors.New("is the same object, or none")
		}
		return nil
	}
}

func isSame(before *unstructured.Unstructured) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() != before.GetUID() || o.GetDeletionTimestamp() != nil {
			return errors.New("is another object, or goes")
		}
		return nil
	}
}

func TestImmutableObjectsAreRecreatedOnRequest(t *testing.T) {
	s, put := task(t, "      onConflict: Recreate\n")
	put("one")
	s.Await(t, s.Kind("Task"), s.NS, "x", testkit.IsReady)
	before := s.Get(t, jobKind, s.NS, "x")

	put("two")
	s.Await(t, s.Kind("Task"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("two", "status", "image")))
	s.AwaitEvent(t, "x", "Recreating", "job: Job "+s.NS+"/x is deleted and recreated", "field is immutable")
	s.Await(t, jobKind, s.NS, "x", isAnother(before))

	t.Log("what wouldn't be accepted as a new object either stays as it is")
	before = s.Get(t, jobKind, s.NS, "x")
	put("''")
	s.Await(t, s.Kind("Task"), s.NS, "x", suite.HasCondition("Ready", "False", "Rejected", "field is immutable", "it is not recreated, because a new one would be refused as well"))
	s.Await(t, jobKind, s.NS, "x", isSame(before))

	t.Log("a protected object is not recreated until its protection is removed")
	mark(t, s, jobKind, "x", `{"espalier.dev/protect":"the auditors"}`)
	put("three")
	s.Await(t, s.Kind("Task"), s.NS, "x", suite.HasCondition("Ready", "False", "Rejected", "it is not recreated", "protected: the auditors"))
	s.Await(t, jobKind, s.NS, "x", isSame(before))
	mark(t, s, jobKind, "x", `{"espalier.dev/protect":null}`)
	s.Await(t, s.Kind("Task"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("three", "status", "image")))
}

func TestImmutableObjectsAreRecreatedAfterAManualDeletion(t *testing.T) {
	s, put := task(t, `    - id: disk
      readyWhen: ["${disk.metadata.name != ''}"]
      template:
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: "${schema.metadata.name}"}
        spec: {accessModes: [ReadWriteOnce], storageClassName: "${schema.spec.image}", resources: {requests: {storage: 1Gi}}}
`)
	disk := schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	put("one")
	s.Await(t, s.Kind("Task"), s.NS, "x", testkit.IsReady)
	job, claim := s.Get(t, jobKind, s.NS, "x"), s.Get(t, disk, s.NS, "x")

	put("two")
	s.Await(t, s.Kind("Task"), s.NS, "x", suite.All(
		suite.HasProblem("job", "field is immutable", "to delete and recreate it, annotate it espalier.dev/recreate=true"),
		suite.HasProblem("disk", "annotate it espalier.dev/recreate=allow-data-loss"),
	))
	mark(t, s, jobKind, "x", `{"espalier.dev/recreate":"true"}`)
	mark(t, s, disk, "x", `{"espalier.dev/recreate":"true"}`)
	s.Await(t, jobKind, s.NS, "x", isAnother(job))
	s.Await(t, s.Kind("Task"), s.NS, "x", suite.HasProblem("disk", "it is not recreated, because it may hold data"))
	s.Await(t, disk, s.NS, "x", isSame(claim))

	mark(t, s, disk, "x", `{"espalier.dev/recreate":"allow-data-loss"}`)
	s.Await(t, s.Kind("Task"), s.NS, "x", testkit.IsReady)
	if again := s.Get(t, disk, s.NS, "x"); again.GetUID() == claim.GetUID() || again.GetAnnotations()["espalier.dev/recreate"] != "" {
		t.Errorf("the claim is not another one without the annotation: %s", testkit.JSON(again))
	}
}

// mark changes annotations of an object.
func mark(t *testing.T, s suite.Suite, kind schema.GroupVersionKind, name, annotations string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":%s}}`, annotations)
	s.Patch(t, kind, s.NS, name, patch)
}
