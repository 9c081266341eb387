package versions

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAnAnnotationBreaksNoRule has a client of the old version set a field that only the new one has, by the
// annotation that keeps it.
func TestAnAnnotationBreaksNoRule(t *testing.T) {
	w := newProgram(t)
	w.put(t, strings.Replace(definition(both), "probe: string", `probe: "string | validation=\"self.startsWith('/team/')\""`, 1))
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, strings.ReplaceAll(old, "$NAME", "a"))
	w.awaitData(t, "a", map[string]string{"replicas": "5", "probe": "none"})

	keep := func(value string) error {
		return w.patch(t, "v1alpha1", "a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"espalier.dev/kept-v1": `[{"at":["probe"],"was":"` + value + `"}]`}}})
	}
	if err := keep("/platform/up"); err == nil || !strings.Contains(err.Error(), "spec.probe") {
		t.Errorf("the rule is broken: %v", err)
	}
	if o := w.in(t, "v1", "a"); spec(o, "probe") != nil {
		t.Errorf("in v1 the instance is %s", testkit.JSON(o))
	}
	noError(t, keep("/team/up"))
	w.awaitData(t, "a", map[string]string{"probe": "/team/up"})
}

// immutablePolicy is the policy of docs/graphs.md for a field.
const immutablePolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $GROUP}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [$GROUP], apiVersions: [v1], resources: [apps], operations: [UPDATE]}]
  validations: [{expression: "object.spec.?probe == oldObject.spec.?probe", message: spec.probe is immutable}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $GROUP}
spec: {policyName: $GROUP, validationActions: [Deny]}
`

// TestAPolicyForTheStoredVersionHoldsInAll has a client of the old version change a field that the new one must keep, by the
// annotation of kept values.
func TestAPolicyForTheStoredVersionHoldsInAll(t *testing.T) {
	w := newProgram(t)
	w.put(t, definition(both))
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, strings.ReplaceAll(old, "$NAME", "a"))
	w.awaitData(t, "a", map[string]string{"replicas": "5", "probe": "none"})
	noError(t, w.patch(t, "v1", "a", map[string]any{"spec": map[string]any{"probe": "/up"}}))
	w.put(t, immutablePolicy)
	defer func() {
		for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
			w.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}, "", w.group)
		}
	}()
	testkit.Poll(t, "changes of the field are refused", func() bool {
		_, err := w.apps("v1").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"probe":"/down"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	for name, kept := range map[string]any{"another value": `[{"at":["probe"],"was":"/down"}]`, "no value": nil} {
		err := w.patch(t, "v1alpha1", "a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"espalier.dev/kept-v1": kept}}})
		if err == nil || !strings.Contains(err.Error(), "spec.probe is immutable") {
			t.Errorf("with %s: %v", name, err)
		}
	}
	noError(t, w.patch(t, "v1alpha1", "a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "shop"}}}))
	if o := w.in(t, "v1", "a"); spec(o, "probe") != "/up" {
		t.Errorf("in v1 the instance is %s", testkit.JSON(o))
	}
}
