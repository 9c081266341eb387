package status

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// listed checks which objects the status lists, each as NODE/NAME, and that each has a UID.
func listed(want ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		var got []string
		managed, _, _ := unstructured.NestedSlice(o.Object, "status", "managedResources")
		for _, entry := range managed {
			fields, _ := entry.(map[string]any)
			if fields["uid"] == "" {
				return fmt.Errorf("no UID: %v", fields)
			}
			got = append(got, fmt.Sprint(fields["nodeID"], "/", fields["name"]))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("lists %q, want %q", got, want)
		}
		return nil
	}
}

// TestTheStatusListsTheObjects follows the list through the changes of an instance.
func TestTheStatusListsTheObjects(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-listed}
spec:
  inventory: Status
  schema: {apiVersion: v1, kind: Listed, group: $GROUP, spec: {zones: "[]string", more: boolean | default=true}}
  resources:
    - id: zones
      forEach: [{zone: "${schema.spec.zones}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone}"}, data: {of: "${first.metadata.uid}"}}
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
    - id: more
      includeWhen: ["${schema.spec.more}"]
      template: {apiVersion: v1, kind: Secret, metadata: {name: more}}
`)
	s.AwaitDefinitions(t, "listed")
	kind := s.Kind("Listed").GroupKind().WithVersion("v1")
	instance := "\napiVersion: $GROUP/v1\nkind: Listed\nmetadata: {name: x, namespace: $NS}\nspec: "
	s.Apply(t, instance+"{zones: [b, a]}")
	s.Await(t, kind, s.NS, "x", listed("first/first", "more/more", "zones/b", "zones/a"))
	s.Apply(t, instance+"{zones: [a, c], more: false}")
	s.Await(t, kind, s.NS, "x", listed("first/first", "zones/a", "zones/c"))
}
