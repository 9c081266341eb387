package steps

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// definitions are a chain of five children in three layers, a graph whose children stay after a
// deletion, one of immutable children, and a nest of three whose lowest value comes from a
// ConfigMap that is created late.
var definitions = expand(suite.Graph("Chain", `spec: {value: string, extra: boolean | default=true}, status: {shown: "${e.data.value}"}`, `
    - id: a
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}, data: {value: "${schema.spec.value}"}}
    - id: b
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-b"}, data: {value: "${a.data.value}"}}
    - id: c
      includeWhen: ["${schema.spec.extra}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-c"}, data: {value: "${a.data.value}"}}
    - id: d
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-d"}, data: {value: "${b.data.value}"}}
    - id: e
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-e"}, data: {value: "${b.data.value}"}}
`) + "---" +
	suite.Graph("Keeper", "", `
    - id: orphan
      deletionPolicy: Orphan
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-orphan"}, data: {value: one}}
    - id: retained
      deletionPolicy: Retain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-retained"}, data: {value: "${orphan.data.value}"}}
    - id: below
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-below"}, data: {value: one}}
    - id: above
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-above"}, data: {value: "${below.data.value}"}}
`) + "---" +
	suite.Graph("Fixed", `spec: {value: string}, status: {value: "${above.data.value}"}`, `
    - id: below
      onConflict: Recreate
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-below"}, immutable: true, data: {value: "${schema.spec.value}"}}
    - id: above
      onConflict: Recreate
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-above"}, immutable: true, data: {value: "${below.data.value}"}}
`) + "---" +
	suite.Graph("Low", `spec: {source: string}, status: {value: "${source.data.value}"}`, `
    - id: source
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.source}"}}
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-low"}, data: {value: "${source.data.value}"}}
`) + "---" +
	suite.Graph("Mid", `spec: {source: string}, status: {value: "${low.status.value}"}`, `
    - id: low
      template: {apiVersion: $GROUP/v1alpha1, kind: Low, metadata: {name: "${schema.metadata.name}"}, spec: {source: "${schema.spec.source}"}}
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-mid"}, data: {value: "${low.status.value}"}}
`) + "---" +
	suite.Graph("Top", `spec: {source: string}, status: {value: "${mid.status.value}"}`, `
    - id: mid
      template: {apiVersion: $GROUP/v1alpha1, kind: Mid, metadata: {name: "${schema.metadata.name}"}, spec: {source: "${schema.spec.source}"}}
    - id: copy
      waitFor: {mid: {fields: [status.value]}}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-top"}, data: {value: "${mid.status.value}"}}
`))

// expand replaces $GROUP by the group of the definitions, and $ID by a prefix of their names.
func expand(text string) string {
	return strings.NewReplacer("$GROUP", "sweep.example.com", "$ID", "sweep").Replace(text)
}

// Kind is a kind of the definitions.
func Kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "sweep.example.com", Version: "v1alpha1", Kind: name}
}

// Define applies the definitions and waits until all are served, and compiled with the schemas
// of all their kinds: a definition that uses another is compiled again once that is served.
func Define(t *testing.T, w *testkit.Cluster) {
	t.Helper()
	w.Apply(t, definitions+compositeDefinitions)
	for _, name := range []string{"sweep-chain", "sweep-keeper", "sweep-fixed", "sweep-low", "sweep-mid", "sweep-top"} {
		w.Await(t, suite.RGD, "", name, func(o *unstructured.Unstructured) error {
			if err := testkit.IsReady(o); err != nil {
				return err
			}
			if message := testkit.ConditionMessage(o, "GraphAccepted"); strings.Contains(message, "not installed") {
				return errors.New(message)
			}
			return nil
		})
	}
	awaitComposites(t, w)
}
