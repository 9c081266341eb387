package graphs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAGraphNeedsThePrintedPermissions: without them a Graph says what is missing; with them it applies, contributes,
// releases and deletes.
func TestAGraphNeedsThePrintedPermissions(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.CRDText("$GROUP", "v1", "Claim", "{type: object, properties: {status: {type: object, properties: {active: {type: boolean}}}}}"))
	s.Apply(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: builder, namespace: $NS}}\n---\n"+
		"{apiVersion: $GROUP/v1, kind: Claim, metadata: {name: one, namespace: $NS}}\n---\n"+theirs)
	text := s.Expand(graphOf("exact", `
  - {id: own, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: own}}}
  - {id: claims, ref: {apiVersion: $GROUP/v1, kind: Claim, metadata: {namespace: $NS, selector: {}}}}
  - {id: team, patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}, data: {mine: v}}}
  - id: active
    forEach: [{c: "${claims}"}]
    patch: {apiVersion: $GROUP/v1, kind: Claim, metadata: {name: "${c.metadata.name}"}, status: {active: true}}`))
	s.Apply(t, text)
	s.Await(t, graph.GraphKind, s.NS, "exact", condition("ResourcesConverged", "False", "ApplyFailed", "forbidden"))

	file := filepath.Join(t.TempDir(), "graph.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := cli.Main(context.Background(), []string{"rbac", "-f", file, "--serviceaccount", "espalier-system:espalier-controllers",
		"--kubeconfig", testkit.Kubeconfig(t, s.Config)}, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	s.Apply(t, out.String())
	s.Await(t, graph.GraphKind, s.NS, "exact", suite.All(condition("Ready", "True", ""), contributes("Claim/one", "ConfigMap/theirs"), managed("own=ConfigMap/own")))
	s.Delete(t, graph.GraphKind, s.NS, "exact")
	s.AwaitGone(t, graph.GraphKind, s.NS, "exact")
	s.AwaitGone(t, configMap, s.NS, "own")
	s.Await(t, configMap, s.NS, "theirs", hasData(0, "their=data"))
	s.Await(t, s.Kind("Claim").GroupKind().WithVersion("v1"), s.NS, "one", func(o *unstructured.Unstructured) error {
		if by := contributors(o); len(by) > 0 {
			return fmt.Errorf("contributors: %q", by)
		}
		return nil
	})
}
