package versions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// alpha is the kind with one version.
const alpha = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $GROUP}
spec:
  schema:
    apiVersion: v1alpha1
    kind: App
    group: $GROUP
    spec: {size: string | default=small, count: string | default=1}
  resources:
    - id: map
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {size: "${schema.spec.size}"}}
`

// definitionWithMovedFields is the kind with moved fields in a new version, and the given former
// version.
func definitionWithMovedFields(versions string) string {
	return `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $GROUP}
spec:
  schema:
    apiVersion: v1
    kind: App
    group: $GROUP
    spec: {replicas: integer | default=1, count: integer | default=1}
` + versions + `
  resources:
    - id: map
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {size: null, replicas: "${string(schema.spec.replicas)}"}}
`
}

const former = `
    versions:
      - name: v1alpha1
        served: $SERVED
        spec: {size: string | default=small, count: string | default=1}
        conversion:
          to: {spec: {replicas: '${self.spec.size == "large" ? 5 : 1}', count: '${int(self.spec.count)}'}}
          from: {spec: {size: '${self.spec.replicas > 3 ? "large" : "small"}', count: '${string(self.spec.count)}'}}
`

func (w *program) stored(t *testing.T, want string) {
	t.Helper()
	w.Await(t, crdKind, "", "apps."+w.group, func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		got, _, _ := unstructured.NestedSlice(o.Object, "status", "storedVersions")
		if fmt.Sprint(got) != "["+want+"]" {
			return fmt.Errorf("status.storedVersions is %v", got)
		}
		return nil
	})
}

// TestADefinitionGetsANewVersion migrates a definition with instances from v1alpha1 to v1.
func TestADefinitionGetsANewVersion(t *testing.T) {
	w := newProgram(t)
	w.put(t, alpha)
	w.AwaitReady(t, rgd, "", w.group)
	for i := range 5 {
		w.put(t, fmt.Sprintf("apiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: a%d, namespace: $NS}\nspec: {size: large, count: \"2\"}\n", i))
	}
	w.put(t, "apiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: odd, namespace: $NS}\nspec: {count: many}\n")
	for _, name := range []string{"a0", "a4", "odd"} {
		w.AwaitReady(t, w.kind("v1alpha1"), w.ns, name)
	}

	t.Run("Not without the version that it was", func(t *testing.T) {
		for _, o := range testkit.Parse(t, w.text(definitionWithMovedFields(""))) {
			_, err := w.TryApply(t, o)
			if err == nil || !strings.Contains(err.Error(), "is listed in versions") {
				t.Errorf("got %v", err)
			}
		}
	})
	served := strings.Replace(former, "$SERVED", "true", 1)
	t.Run("Not while an instance can't be converted", func(t *testing.T) {
		w.put(t, definitionWithMovedFields(served))
		w.awaitKind(t, "ConversionFails", "1 of 6", "App "+w.ns+"/odd", "spec.count", "int(self.spec.count)")
		w.stored(t, "v1alpha1")
		// What was published serves on.
		noError(t, w.patch(t, "v1alpha1", "a0", map[string]any{"spec": map[string]any{"size": "small"}}))
		w.awaitData(t, "a0", map[string]string{"size": "small"})
		noError(t, w.patch(t, "v1alpha1", "a0", map[string]any{"spec": map[string]any{"size": "large"}}))
		noError(t, w.patch(t, "v1alpha1", "odd", map[string]any{"spec": map[string]any{"count": "3"}}))
	})
	t.Run("Then instances are rewritten", func(t *testing.T) {
		noError(t, w.triggerReconcile(t))
		w.AwaitReady(t, rgd, "", w.group)
		w.awaitData(t, "a0", map[string]string{"replicas": "5"})
		w.awaitData(t, "odd", map[string]string{"replicas": "1"})
		w.AwaitReady(t, w.kind("v1"), w.ns, "a3")
		w.stored(t, "v1")
		if o := w.in(t, "v1alpha1", "odd"); spec(o, "count") != "3" || spec(o, "size") != "small" {
			t.Errorf("in v1alpha1 the instance is %s", testkit.JSON(o))
		}
	})
	t.Run("The former version goes in two steps", func(t *testing.T) {
		w.put(t, definitionWithMovedFields(""))
		w.awaitKind(t, "BreakingChange", "version v1alpha1", "served: false")
		w.put(t, definitionWithMovedFields(strings.Replace(former, "$SERVED", "false", 1)))
		w.AwaitReady(t, rgd, "", w.group)
		testkit.Poll(t, "v1alpha1 isn't served any more", func() bool {
			_, err := w.apps("v1alpha1").Get(t.Context(), "a0", metav1.GetOptions{})
			return err != nil
		})
		w.put(t, definitionWithMovedFields(""))
		w.AwaitReady(t, rgd, "", w.group)
		strategy, _, _ := unstructured.NestedString(w.crd(t).Object, "spec", "conversion", "strategy")
		if versions, _, _ := unstructured.NestedSlice(w.crd(t).Object, "spec", "versions"); len(versions) != 1 || strategy != "None" {
			t.Errorf("the kind has %d versions and the strategy %s", len(versions), strategy)
		}
		noError(t, w.patch(t, "v1", "a1", map[string]any{"spec": map[string]any{"replicas": 2}}))
		w.awaitData(t, "a1", map[string]string{"replicas": "2"})
	})
}

// unchangeable is a policy that refuses every update of instances.
const unchangeable = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $GROUP}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [$GROUP], apiVersions: ["*"], resources: [apps], operations: [UPDATE]}]}
  validations: [{expression: "false", message: nothing may be changed}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $GROUP}
spec: {policyName: $GROUP, validationActions: [Deny]}
`

// TestAConversionIsTriedFromWhatIsStored has instances that cannot be rewritten in the new version: a later conversion is
// published only if it succeeds for them in the version in which they are stored.
func TestAConversionIsTriedFromWhatIsStored(t *testing.T) {
	w := newProgram(t)
	w.put(t, alpha)
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, "apiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {size: large, count: \"2\"}\n")
	w.AwaitReady(t, w.kind("v1alpha1"), w.ns, "a")
	w.put(t, unchangeable)
	testkit.Poll(t, "changes are refused", func() bool {
		_, err := w.apps("v1alpha1").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	served := strings.Replace(former, "$SERVED", "true", 1)
	w.put(t, definitionWithMovedFields(served))
	w.AwaitReady(t, rgd, "", w.group)
	w.awaitData(t, "a", map[string]string{"replicas": "5"})

	// It converts what is stored in v1, but not the size of what is stored in v1alpha1.
	w.put(t, definitionWithMovedFields(strings.Replace(served, `self.spec.size == "large" ? 5 : 1`, "int(self.spec.size)", 1)))
	w.awaitKind(t, "ConversionFails", "1 of 1", "App "+w.ns+"/a", "spec.replicas", "int(self.spec.size)")
	if list, err := w.apps("v1").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("the instances are not served any more: %v", err)
	}
	w.stored(t, "v1alpha1 v1")

	w.put(t, definitionWithMovedFields(strings.Replace(served, "? 5 :", "? 7 :", 1)))
	w.AwaitReady(t, rgd, "", w.group)
	w.awaitData(t, "a", map[string]string{"replicas": "7"})
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		w.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}, "", w.group)
	}
	w.stored(t, "v1")
}

// TestAnInstanceThatIsNotRewrittenIsNamed has one of three instances that cannot be written: the others are rewritten, and
// the definition says which one keeps its former version from being removed.
func TestAnInstanceThatIsNotRewrittenIsNamed(t *testing.T) {
	w := newProgram(t)
	w.put(t, alpha)
	w.AwaitReady(t, rgd, "", w.group)
	for _, name := range []string{"a", "b", "c"} {
		w.put(t, "apiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: "+name+", namespace: $NS}\nspec: {size: large, count: \"2\"}\n")
		w.AwaitReady(t, w.kind("v1alpha1"), w.ns, name)
	}
	w.put(t, strings.Replace(unchangeable, `"false"`, `"object.metadata.name != 'a'"`, 1))
	testkit.Poll(t, "changes are refused", func() bool {
		_, err := w.apps("v1alpha1").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	w.put(t, definitionWithMovedFields(strings.Replace(former, "$SERVED", "true", 1)))
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, definitionWithMovedFields(strings.Replace(former, "$SERVED", "false", 1)))
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, definitionWithMovedFields(""))
	w.awaitKind(t, "VersionStillStored", "1 of 3 instances", "App "+w.ns+"/a", "the API server answers Invalid.")
	if got := testkit.ConditionStatus(w.Get(t, rgd, "", w.group), "Stalled"); got != "True" {
		t.Error("it is not stalled, and only a user can make it continue")
	}
	w.stored(t, "v1alpha1 v1")
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		w.Delete(t, schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}, "", w.group)
	}
	w.stored(t, "v1")
	w.AwaitReady(t, rgd, "", w.group)
}

// triggerReconcile enqueues the definition: a change of an instance does not.
func (w *program) triggerReconcile(t *testing.T) error {
	t.Helper()
	o := w.Get(t, rgd, "", w.group)
	annotations := map[string]string{"touched": "yes"}
	o.SetAnnotations(annotations)
	_, err := w.Resource(t, rgd, "").Update(t.Context(), o, metav1.UpdateOptions{})
	return err
}

// rollBack rolls the definition back to a revision.
func (w *program) rollBack(t *testing.T, to string) error {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"espalier.dev/rollback-to":` + to + `}}}`)
	_, err := w.Resource(t, rgd, "").Patch(t.Context(), w.group, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// TestTheSameFieldsNeedNoWebhook adds a version with the same fields to a definition, in a program
// without a webhook.
func TestTheSameFieldsNeedNoWebhook(t *testing.T) {
	w := newProgram(t)
	w.start(t, false)
	w.put(t, alpha)
	w.AwaitReady(t, rgd, "", w.group)
	w.put(t, "apiVersion: $GROUP/v1alpha1\nkind: App\nmetadata: {name: a, namespace: $NS}\nspec: {size: large}\n")
	w.awaitData(t, "a", map[string]string{"size": "large"})
	next := func(versions string) string {
		return strings.Replace(alpha, "apiVersion: v1alpha1\n", "apiVersion: v1\n    versions: "+versions+"\n", 1)
	}
	w.put(t, next("[{name: v1alpha1}]"))
	w.AwaitReady(t, rgd, "", w.group)
	w.AwaitReady(t, w.kind("v1"), w.ns, "a")
	noError(t, w.patch(t, "v1alpha1", "a", map[string]any{"spec": map[string]any{"size": "small"}}))
	w.awaitData(t, "a", map[string]string{"size": "small"})

	// A rollback that the kind has no room for is not said to be done.
	noError(t, w.rollBack(t, `"1"`))
	w.Await(t, rgd, "", w.group, func(o *unstructured.Unstructured) error {
		message := testkit.ConditionMessage(o, "GraphRevisionsResolved")
		if testkit.ConditionReason(o, "KindReady") != "BreakingChange" || testkit.ConditionReason(o, "GraphRevisionsResolved") != "KindNotReady" ||
			testkit.ConditionStatus(o, "GraphRevisionsResolved") != "False" || !strings.Contains(message, "revision 2 continues to serve") {
			return errors.New("it says " + message)
		}
		return nil
	})
	noError(t, w.rollBack(t, "null"))
	w.AwaitReady(t, rgd, "", w.group)

	// Who is in a hurry waits until the instances have been rewritten.
	w.put(t, strings.Replace(next("[]"), "metadata: {name: $GROUP}", "metadata: {name: $GROUP, annotations: {kro.run/allow-breaking-changes: 'true'}}", 1))
	w.awaitKind(t, "VersionStillStored", "v1alpha1", "being rewritten")
	if got := testkit.ConditionStatus(w.Get(t, rgd, "", w.group), "Stalled"); got == "True" {
		t.Error("it is stalled while the instances are being rewritten")
	}
	w.stored(t, "v1")
	w.AwaitReady(t, rgd, "", w.group)
	if versions, _, _ := unstructured.NestedSlice(w.crd(t).Object, "spec", "versions"); len(versions) != 1 {
		t.Errorf("the kind has %d versions", len(versions))
	}
	noError(t, w.patch(t, "v1", "a", map[string]any{"spec": map[string]any{"size": "large"}}))
	w.awaitData(t, "a", map[string]string{"size": "large"})
}
