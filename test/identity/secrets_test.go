package identity

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// vault is a definition of a Secret with the given fields.
func vault(fields string) string {
	return suite.Graph("Vault", "spec: {words: 'map[string]string', word: 'string'}", `
    - id: secret
      template: {apiVersion: v1, kind: Secret, metadata: {name: "${schema.metadata.name}-secret"}, `+fields+`}
`)
}

const vaultInstance = "apiVersion: $GROUP/v1alpha1\nkind: Vault\nmetadata: {name: x, namespace: $NS}\nspec: {words: {a: one, b: two}, word: one}\n"

// awaitData waits until the Secret of the vault has exactly these data, and all of them are owned as data.
func awaitData(t *testing.T, s suite.Suite, want map[string]any) *unstructured.Unstructured {
	t.Helper()
	return s.Await(t, suite.Secret, s.NS, "x-secret", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if diff := cmp.Diff(want, o.Object["data"]); diff != "" {
			return errors.New("its data differ:\n" + diff)
		}
		owned := ownership.AppliedFields(o, v1alpha1.ChildManager)
		if ownership.Owns(owned, ownership.Path("stringData")) {
			return errors.New("its stringData are owned")
		}
		for key := range want {
			if !ownership.Owns(owned, ownership.Path("data", key)) {
				return fmt.Errorf("its data.%s is not owned", key)
			}
		}
		return nil
	})
}

// TestASecretOfStringDataIsCorrected has other managers change the data of a Secret that a definition
// gives as stringData, and then a key removed from the definition.
func TestASecretOfStringDataIsCorrected(t *testing.T) {
	for name, tc := range map[string]struct{ both, one string }{
		"Of texts":        {"stringData: {a: one, b: two}", "stringData: {a: one}"},
		"Of a map":        {`stringData: "${schema.spec.words}"`, `stringData: {a: "${schema.spec.word}"}`},
		"Of data as well": {`data: {a: eA==, b: dHdv}, stringData: {a: "${schema.spec.word}"}`, `stringData: {a: "${schema.spec.word}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := suite.New(t)
			s.Apply(t, vault(tc.both))
			s.AwaitDefinitions(t, "vault")
			s.Apply(t, vaultInstance)
			s.AwaitReady(t, s.Kind("Vault"), s.NS, "x")
			both, one := map[string]any{"a": "b25l", "b": "dHdv"}, map[string]any{"a": "b25l"}
			awaitData(t, s, both)
			s.PatchAs(t, "meddler", suite.Secret, s.NS, "x-secret", `{"stringData":{"a":"theirs"}}`)
			awaitData(t, s, both)
			s.AwaitEvent(t, "x", "DriftCorrected", "data.a of Secret "+s.NS+"/x-secret", "meddler")
			s.Apply(t, vault(tc.one))
			awaitData(t, s, one)
		})
	}
}

// TestAnotherApplierOfStringDataIsCorrected has another manager apply, by force, stringData.
func TestAnotherApplierOfStringDataIsCorrected(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, vault("stringData: {a: one}"))
	s.AwaitDefinitions(t, "vault")
	s.Apply(t, vaultInstance)
	s.AwaitReady(t, s.Kind("Vault"), s.NS, "x")
	awaitData(t, s, map[string]any{"a": "b25l"})
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: x-secret, namespace: $NS}\nstringData: {a: theirs}\n")
	awaitData(t, s, map[string]any{"a": "b25l"})
	s.AwaitEvent(t, "x", "DriftCorrected", "data.a of Secret "+s.NS+"/x-secret", "test")
}

// TestStringDataOfAnotherApplierConflict has another manager apply, by force, stringData of a Secret whose fields
// are not to be taken over.
func TestStringDataOfAnotherApplierConflict(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, vault("stringData: {a: one}")+"      conflicts: Refuse\n")
	s.AwaitDefinitions(t, "vault")
	s.Apply(t, vaultInstance)
	s.AwaitReady(t, s.Kind("Vault"), s.NS, "x")
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: x-secret, namespace: $NS}\nstringData: {a: theirs}\n")
	s.Await(t, s.Kind("Vault"), s.NS, "x", suite.HasCondition("Ready", "False", "FieldConflict", "data.a of Secret "+s.NS+"/x-secret is set by test"))
	if err := suite.HasField("dGhlaXJz", "data", "a")(s.Get(t, suite.Secret, s.NS, "x-secret")); err != nil {
		t.Error(err)
	}

	t.Log("once it has the same value, nothing conflicts")
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: x-secret, namespace: $NS}\nstringData: {a: one}\n")
	s.AwaitReady(t, s.Kind("Vault"), s.NS, "x")
}

// TestTheStringDataOfAFormerVersionBecomeData applies stringData as former versions did.
func TestTheStringDataOfAFormerVersionBecomeData(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, vault("stringData: {a: one}"))
	s.AwaitDefinitions(t, "vault")
	s.Apply(t, vaultInstance)
	s.AwaitReady(t, s.Kind("Vault"), s.NS, "x")
	is := awaitData(t, s, map[string]any{"a": "b25l"})

	was := &unstructured.Unstructured{Object: map[string]any{"stringData": map[string]any{"a": "one", "b": "no longer desired"}}}
	was.SetGroupVersionKind(is.GroupVersionKind())
	was.SetName(is.GetName())
	was.SetNamespace(is.GetNamespace())
	was.SetLabels(is.GetLabels())
	was.SetOwnerReferences(is.GetOwnerReferences())
	annotations := is.GetAnnotations()
	delete(annotations, v1alpha1.StringDataAnnotation)
	annotations[v1alpha1.AppliedAnnotation] = "of a former version"
	was.SetAnnotations(annotations)
	options := metav1.ApplyOptions{FieldManager: v1alpha1.ChildManager, Force: true}
	former, err := s.Resource(t, suite.Secret, s.NS).Apply(t.Context(), was.GetName(), was, options)
	if err != nil {
		t.Fatal(err)
	}
	if owned := ownership.AppliedFields(former, v1alpha1.ChildManager); !ownership.Owns(owned, ownership.Path("stringData", "b")) || ownership.Owns(owned, ownership.Path("data")) {
		t.Fatalf("the Secret of a former version owns\n%s", owned)
	}
	awaitData(t, s, map[string]any{"a": "b25l"})

	s.PatchAs(t, "meddler", suite.Secret, s.NS, "x-secret", `{"data":{"a":"eA=="}}`)
	awaitData(t, s, map[string]any{"a": "b25l"})
	s.AwaitEvent(t, "x", "DriftCorrected", "meddler")
	for _, e := range s.List(t, schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}, s.NS, "") {
		if e.Object["reason"] == "DriftCorrected" && e.Object["note"] != "data.a of Secret "+s.NS+"/x-secret was changed by meddler and is corrected" {
			t.Errorf("there is an event %q", e.Object["note"])
		}
	}
}
