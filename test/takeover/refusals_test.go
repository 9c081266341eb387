package takeover

import (
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/migration/takeover"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// The plan reports objects that are not taken over, also where the controllers run already: an
// object of another client, and a definition that does not compile.
func TestThePlanReportsWhatIsNotTakenOver(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Clash", "spec: {name: string}", `
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.name}"}}
`)+"---"+suite.Graph("Mistaken", "spec: {name: string}", `
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.nothing}"}}
`)+`---
apiVersion: v1
kind: ConfigMap
metadata: {name: others, namespace: $NS}
`)
	s.AwaitDefinitions(t, "clash")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Clash\nmetadata: {name: one, namespace: $NS}\nspec: {name: others}\n")
	s.Await(t, s.Kind("Clash"), s.NS, "one", func(o *unstructured.Unstructured) error {
		if len(report.ReadProblems(o)) == 0 {
			return errors.New("it has no problem")
		}
		return nil
	})
	s.Await(t, suite.RGD, "", s.Name("mistaken"), func(o *unstructured.Unstructured) error {
		if testkit.ConditionStatus(o, "GraphAccepted") != "False" {
			return errors.New("it is accepted")
		}
		return nil
	})
	_, out, errs := runCLI(t.Context(), "takeover", "--plan", "--dialects", "graph", "-o", "json", "--kubeconfig", testkit.Kubeconfig(t, s.Config))
	var plan takeover.Plan
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	told := map[string]preview.Problem{}
	for _, r := range plan.Problems {
		told[r.Object] = r
	}
	if r := told["Clash "+s.NS+"/one"]; r.Reason != "NotOwned" || r.Remedy == "" || !r.Known {
		t.Errorf("the object of another owner: %+v", r)
	}
	if r := told["ResourceGraphDefinition "+s.Name("mistaken")]; r.Reason != "InvalidResourceGraph" || r.Remedy == "" || !r.Known {
		t.Errorf("the definition: %+v", r)
	}
}
