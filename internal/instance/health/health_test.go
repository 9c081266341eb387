package health_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/instance/health"
)

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestInstance(t *testing.T) {
	cases := map[string]struct {
		object string
		ready  bool
		says   string
	}{
		"Before the first reconcile": {"metadata: {generation: 1}", false, "it has not been reconciled yet"},
		"Ready for its current generation": {
			"{metadata: {generation: 2}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}}", true, "",
		},
		"Ready for an older generation": {
			"{metadata: {generation: 3}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}}",
			false, "its status is of generation 2, not 3",
		},
		"Without a condition Ready the state counts": {
			"{metadata: {generation: 2}, status: {state: ACTIVE, conditions: [{type: Mine, status: 'False', observedGeneration: 2}]}}", true, "",
		},
		"The state is another than ACTIVE": {
			"{metadata: {generation: 2}, status: {state: ERROR, conditions: [{type: Mine, status: 'True', observedGeneration: 2}]}}", false, "its state is ERROR",
		},
		"The state is of an older generation": {
			"{metadata: {generation: 2}, status: {state: ACTIVE, conditions: [{type: Mine, status: 'True', observedGeneration: 1}]}}",
			false, "its status is of generation 1, not 2",
		},
		"Not ready with the deepest cause": {
			"{metadata: {generation: 1}, status: {conditions: [{type: Ready, status: 'False', reason: R, message: a waits for b.id, observedGeneration: 1}]}}",
			false, "a waits for b.id",
		},
		"Not ready with a reason and no message": {
			"{metadata: {generation: 1}, status: {conditions: [{type: Ready, status: Unknown, reason: Deleting, observedGeneration: 1}]}}",
			false, "Deleting",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := health.Instance(read(t, tc.object))
			if got.Ready != tc.ready || got.Message != tc.says {
				t.Errorf("want %t %q, got %t %q", tc.ready, tc.says, got.Ready, got.Message)
			}
		})
	}
}

func TestOf(t *testing.T) {
	cases := map[string]struct {
		object string
		ready  bool
		says   string
	}{
		"An object without a status is ready": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}", true, ""},
		"A Ready condition decides": {
			"{apiVersion: a/v1, kind: X, metadata: {name: x, generation: 1}, status: {conditions: [{type: Ready, status: 'False', message: too small}]}}",
			false, "too small",
		},
		"An older generation is not ready": {
			"{apiVersion: a/v1, kind: X, metadata: {name: x, generation: 2}, status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}}",
			false, "generation",
		},
		"The default of a new object": {
			"{apiVersion: a/v1, kind: X, metadata: {name: x, generation: 1}, status: {observedGeneration: -1}}",
			false, "InProgress: it has not been reconciled yet",
		},
		"A new object that is deleted": {
			"{apiVersion: a/v1, kind: X, metadata: {name: x, generation: 2, deletionTimestamp: '2026-08-01T12:00:00Z'}, status: {observedGeneration: -1}}",
			false, "Terminating",
		},
		"A well-known kind has its own rules": {
			"{apiVersion: batch/v1, kind: Job, metadata: {name: x}, status: {startTime: '2026-08-01T12:00:00Z', conditions: [{type: Failed, status: 'True', message: no luck}]}}",
			false, "Job Failed",
		},
		"A Pod that has failed isn't ready": {
			"{apiVersion: v1, kind: Pod, metadata: {name: x}, status: {phase: Failed, reason: Evicted, message: The node was low on memory}}",
			false, "Failed: Pod has failed: Evicted: The node was low on memory",
		},
		"A Pod that has succeeded is ready":                  {"{apiVersion: v1, kind: Pod, metadata: {name: x}, status: {phase: Succeeded}}", true, ""},
		"A volume that has failed isn't ready":               {"{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}, status: {phase: Failed}}", false, "is in the Failed phase"},
		"A volume that is available is ready":                {"{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}, status: {phase: Available}}", true, ""},
		"A ReplicationController of 0 of 2":                  {"{apiVersion: v1, kind: ReplicationController, metadata: {name: x}, spec: {replicas: 2}, status: {replicas: 2}}", false, "readyReplicas: 0/2"},
		"A signing request that was denied isn't ready":      {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: x}, status: {conditions: [{type: Denied, status: 'True', message: not us}]}}", false, "Failed: Denied: not us"},
		"A request without certificate":                      {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: x}}", false, "has not been issued"},
		"A ReplicationController has one replica by default": {"{apiVersion: v1, kind: ReplicationController, metadata: {name: x}, status: {replicas: 1, readyReplicas: 1, availableReplicas: 1}}", true, ""},
		"A ReplicationController with a replica too many":    {"{apiVersion: v1, kind: ReplicationController, metadata: {name: x}, spec: {replicas: 1}, status: {replicas: 2, readyReplicas: 1, availableReplicas: 1}}", false, "replicas: 2/1"},
		"A request with a certificate that is not approved":  {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: x}, status: {certificate: YQ==}}", false, "has not been issued"},
		"A request that is approved without a certificate":   {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: x}, status: {conditions: [{type: Approved, status: 'True'}]}}", false, "has not been issued"},
		"A request with its certificate is ready":            {"{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: x}, status: {certificate: YQ==, conditions: [{type: Approved, status: 'True'}]}}", true, ""},
		"An Operation that has failed isn't ready": {
			"{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: x}, status: {conditions: [{type: Succeeded, status: 'False', reason: PipelineError, message: no luck}, {type: Synced, status: 'True'}]}}",
			false, "Failed: PipelineError: no luck",
		},
		"An Operation whose attempt has failed isn't ready": {
			"{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: x}, status: {conditions: [{type: Succeeded, status: Unknown}, {type: Synced, status: 'False', reason: ReconcileError, message: no luck}]}}",
			false, "InProgress: ReconcileError: no luck",
		},
		"An Operation that has succeeded is ready": {
			"{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: x}, status: {conditions: [{type: Succeeded, status: 'True'}, {type: Synced, status: 'True'}]}}", true, "",
		},
		"A managed resource that was paused before its creation isn't ready": {
			"{apiVersion: a/v1, kind: X, metadata: {name: x, generation: 1}, status: {observedGeneration: 1, conditions: [{type: Synced, status: 'False', reason: ReconcilePaused, message: paused by an annotation}]}}",
			false, "InProgress: ReconcilePaused: paused by an annotation",
		},
		"A managed resource that was paused while it was ready": {
			"{apiVersion: a/v1, kind: X, metadata: {name: x, generation: 1}, status: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}, {type: Synced, status: 'False', reason: ReconcilePaused}]}}",
			true, "",
		},
		"A managed resource that was paused, and changed since": {
			"{apiVersion: a/v1, kind: X, metadata: {name: x, generation: 2}, status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True', observedGeneration: 1}, {type: Synced, status: 'False', reason: ReconcilePaused, message: paused by an annotation}]}}",
			false, "InProgress: ReconcilePaused: paused by an annotation",
		},
		"A malformed status isn't ready": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, status: {conditions: some}}", false, "can't be read",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := health.Of(read(t, tc.object))
			if got.Ready != tc.ready || !strings.Contains(got.Message, tc.says) {
				t.Errorf("want %t %q, got %t %q", tc.ready, tc.says, got.Ready, got.Message)
			}
		})
	}
}

func TestStale(t *testing.T) {
	cases := map[string]struct {
		object string
		want   bool
	}{
		"Without a status nothing is stale": {"metadata: {generation: 5}", false},
		"An older observed generation":      {"{metadata: {generation: 5}, status: {observedGeneration: 4}}", true},
		"The current observed generation":   {"{metadata: {generation: 5}, status: {observedGeneration: 5}}", false},
		"A managed resource whose change could not be made": {
			"{metadata: {generation: 5}, status: {observedGeneration: 5, conditions: [{type: Ready, status: 'True', observedGeneration: 4}, {type: Synced, status: 'False', reason: ReconcileError, observedGeneration: 5}]}}", true,
		},
		"A managed resource whose change is being made": {
			"{metadata: {generation: 5}, status: {observedGeneration: 5, conditions: [{type: Ready, status: 'True', observedGeneration: 4}, {type: Synced, status: Unknown, reason: OperationInProgress, observedGeneration: 5}]}}", true,
		},
		"A managed resource that cannot be observed any more": {
			"{metadata: {generation: 5}, status: {observedGeneration: 5, conditions: [{type: Ready, status: 'True', observedGeneration: 5}, {type: Synced, status: 'False', reason: ReconcileError, observedGeneration: 5}]}}", false,
		},
		"The observed generation of a condition counts if the status has none": {
			"{metadata: {generation: 5}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 4}]}}", true,
		},
		"A condition without an observed generation": {
			"{metadata: {generation: 5}, status: {conditions: [{type: Ready, status: 'True'}]}}", false,
		},
		"The observed generation of the status has precedence": {
			"{metadata: {generation: 5}, status: {observedGeneration: 5, conditions: [{type: Ready, status: 'True', observedGeneration: 4}]}}", false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := health.Stale(read(t, tc.object)); got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}
