package standin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func asked(kind string, generation int64, spec, status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "spec": spec}}
	o.SetName("demo")
	o.SetUID("8a3d")
	o.SetGeneration(generation)
	if status != nil {
		o.Object["status"] = status
	}
	return o
}

func TestFinished(t *testing.T) {
	tests := map[string]struct {
		o    *unstructured.Unstructured
		want map[string]any
	}{
		"a network gets an id": {
			o:    asked("Network", 1, nil, nil),
			want: map[string]any{"state": "available", "networkID": "net-38d219af"},
		},
		"a subnet's id is recognisable": {
			o:    asked("Subnet", 1, nil, nil),
			want: map[string]any{"state": "available", "subnetID": "subnet-38d219af"},
		},
		"a control plane keeps the endpoint that it was moved to": {
			o:    asked("ControlPlane", 2, nil, map[string]any{"endpoint": "https://moved"}),
			want: map[string]any{"state": "active", "controlPlaneID": "cp-38d219af", "endpoint": "https://moved"},
		},
		"a node pool has the nodes that were asked for": {
			o:    asked("NodePool", 2, map[string]any{"size": int64(5)}, map[string]any{"ready": int64(3)}),
			want: map[string]any{"state": "active", "nodePoolID": "np-38d219af", "ready": int64(5)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := finished(tt.o, noon)
			after := tt.o.DeepCopy()
			after.Object["status"] = map[string]any{"conditions": got["conditions"]}
			if !done(after) {
				t.Error("it doesn't count as done")
			}
			delete(got, "conditions")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWorkBeginsAnewWithEachGeneration(t *testing.T) {
	o := asked("NodePool", 1, map[string]any{"size": int64(3)}, nil)
	o.Object["status"] = beginning(o, noon)
	if done(o) {
		t.Error("it is done before it is finished")
	}
	o.Object["status"] = finished(o, noon)
	if !done(o) {
		t.Error("it is not done when it is finished")
	}
	o.SetGeneration(2)
	if done(o) {
		t.Error("what was done for one generation counts for the next")
	}
	status := beginning(o, noon)
	if status["ready"] != int64(3) || status["state"] != "updating" {
		t.Errorf("while it is changed it forgets what it was: %v", status)
	}
}

func TestTheCloudTakesItsTime(t *testing.T) {
	for _, kind := range []string{"Network", "Subnet", "ControlPlane", "NodePool"} {
		if d := delay(asked(kind, 1, nil, nil)); d < least || d > least+spread {
			t.Errorf("%s takes %s", kind, d)
		}
	}
}
