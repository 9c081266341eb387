package doctor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/observe/doctor"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens examines recorded states, at widths of 80 and 120 columns.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		var state doctor.State
		if err := yaml.UnmarshalStrict([]byte(a.Input["state.yaml"]), &state); err != nil {
			t.Fatal(err)
		}
		state.StuckAfter = 5 * time.Minute
		found := doctor.Examine(state)
		for _, f := range found {
			if f.Severity != doctor.OK && f.Remedy == "" {
				t.Errorf("%v has no remedy", f)
			}
		}
		for _, width := range []int{80, 120} {
			text := doctor.Text(found, width)
			a.Record(fmt.Sprintf("%d.txt", width), text)
			golden.CheckWidth(t, a.Name, text, width)
		}
		raw, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		a.Record("worst", string(doctor.Worst(found))+"\n")
		if a.Name == "problems" {
			a.Record("json", string(raw)+"\n")
		}
	})
}

// Whoever may write labels can make an object look like the child of an instance that is gone, and the
// API server accepts nearly any name for a Role: it is one word of the command that deletes it.
func TestRemediesQuoteNames(t *testing.T) {
	const name = "x;id $(id)"
	role := &unstructured.Unstructured{}
	role.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"})
	role.SetNamespace("prod")
	role.SetName(name)
	quoted := false
	for _, f := range doctor.Examine(doctor.State{
		InstanceKinds: []schema.GroupKind{{Group: "kro.run", Kind: "App"}},
		Children:      []doctor.Child{{Object: role, Instance: doctor.Object{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "gone"}}},
	}) {
		if f.Check == "orphans" && strings.Contains(f.Remedy, name) {
			quoted = strings.HasSuffix(f.Remedy, "kubectl delete role.rbac.authorization.k8s.io '"+name+"' -n prod")
			if !quoted {
				t.Errorf("the remedy runs the name: %s", f.Remedy)
			}
		}
	}
	if !quoted {
		t.Error("no remedy deletes the object")
	}
}
