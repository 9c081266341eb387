package observe_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestStatusGoldens reads testdata/status: definitions.yaml, revisions.yaml, instances.yaml and managed.yaml. Expected are the text at two widths and
// the JSON.
func TestStatusGoldens(t *testing.T) {
	golden.Run(t, "testdata/status/*.txtar", func(t *testing.T, a *golden.Archive) {
		now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
		read := func(name string) (out []*unstructured.Unstructured) {
			for _, doc := range strings.Split(a.Input[name], "\n---\n") {
				if strings.TrimSpace(doc) != "" {
					out = append(out, state(t, doc).Root)
				}
			}
			return out
		}
		s := observe.Status(read("definitions.yaml"), read("revisions.yaml"), read("instances.yaml"), read("managed.yaml"), "", now)
		for _, view := range []struct {
			name  string
			width int
		}{{"80", 80}, {"120", 120}} {
			text := s.Text(now, view.width)
			a.Record(view.name, text)
			golden.CheckWidth(t, view.name, text, view.width)
		}
		a.Record("json", string(s.JSON()))
		if s.IsReady() != (a.Name == "ready") {
			t.Errorf("ready: %t", s.IsReady())
		}
	})
}

// TestStatusOfANamespace has managed resources in a namespace: one that a cluster-scoped instance composes, and one that none does.
func TestStatusOfANamespace(t *testing.T) {
	shop := state(t, "{apiVersion: kro.run/v1alpha1, kind: Shop, metadata: {name: main}}").Root
	bucket := func(namespace, name string) *unstructured.Unstructured {
		return state(t, "{apiVersion: s3.example.org/v1, kind: Bucket, metadata: {name: "+name+", namespace: "+namespace+"}, status: {conditions: [{type: Ready, status: 'False', reason: Creating}]}}").Root
	}
	composed := bucket("prod", "composed")
	composed.SetLabels(map[string]string{
		v1alpha1.ApplySetPartOfLabel: inventory.ApplySetID(object.KeyOf(shop)), v1alpha1.InstanceGroupLabel: "kro.run",
		v1alpha1.InstanceKindLabel: "Shop", v1alpha1.InstanceVersionLabel: "v1alpha1", v1alpha1.InstanceNameLabel: "main",
	})
	managed := []*unstructured.Unstructured{composed, bucket("prod", "alone"), bucket("other", "elsewhere")}
	s := observe.Status(nil, nil, []*unstructured.Unstructured{shop}, managed, "prod", time.Now())
	if s.Instances != 0 || s.ManagedResources != 1 || s.UnreadyManagedResources != 1 || s.Definitions[0].Unready[0].Object.Name != "alone" {
		t.Errorf("%+v", s)
	}
}
