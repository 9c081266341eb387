package compositions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var (
	compositionKind         = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "Composition"}
	compositionRevisionKind = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositionRevision"}
)

// lots is a composition of one ConfigMap that is ready if spec.fit of the composite contains the edition.
func lots(edition string) string {
	text := suite.Composition("lot", "Lot", suite.PatchAndTransform(fmt.Sprintf(`
      - name: note
        base: {apiVersion: v1, kind: ConfigMap, data: {edition: %[1]s}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.%[1]s, toFieldPath: data.fits}
        readinessChecks: [{type: MatchString, fieldPath: data.fits, matchString: "yes"}]
`, edition)))
	return strings.Replace(text, "metadata: {name: $ID-lot}", `metadata:
  name: $ID-lot
  annotations:
    espalier.dev/rollout: |
      waves: [{selector: {matchLabels: {volunteer: "yes"}}}]
      progressDeadline: 1s`, 1)
}

// TestARevisionOfACompositionIsRolledOutInWaves changes a composition together with the annotation that asks for waves, stops at
// the first one, continues, rolls back, and returns to former content.
func TestARevisionOfACompositionIsRolledOutInWaves(t *testing.T) {
	s := suite.New(t)
	kind, name := s.Kind("Lot"), s.Name("lot")
	selector := "crossplane.io/composition-name=" + name
	first := lots("one")
	plain := first[:strings.Index(first, "  annotations:")] + first[strings.Index(first, "spec:"):]
	s.Apply(t, suite.XRD("v2", "Lot", "one: {type: string}, two: {type: string}", "")+"---"+plain)
	for id, labels := range map[string]string{"a": "{}", "b": "{}", "c": `{volunteer: "yes"}`} {
		s.Apply(t, fmt.Sprintf(`{apiVersion: $GROUP/v1alpha1, kind: Lot, metadata: {namespace: $NS, name: %s, labels: %s}, spec: {one: "yes", two: "no"}}`, id, labels))
	}
	// The state is recorded on a revision of the composition.
	awaitRollout := func(phase v1alpha1.RolloutPhase, wave int32) {
		t.Helper()
		s.AwaitList(t, compositionRevisionKind, "", selector, func(objects map[string]*unstructured.Unstructured) error {
			var state struct{ Rollout v1alpha1.RolloutStatus }
			for _, o := range objects {
				if text, recorded := o.GetAnnotations()[v1alpha1.RolloutStateAnnotation]; recorded {
					if err := json.Unmarshal([]byte(text), &state); err != nil {
						return err
					}
				}
			}
			if state.Rollout.Phase != phase || wave != 0 && state.Rollout.Wave != wave {
				return fmt.Errorf("the rollout is %q in wave %d", state.Rollout.Phase, state.Rollout.Wave)
			}
			return nil
		})
	}
	editions := func(want map[string]string) {
		t.Helper()
		for id, edition := range want {
			s.AwaitList(t, suite.ConfigMap, s.NS, "crossplane.io/composite="+id, func(objects map[string]*unstructured.Unstructured) error {
				for _, o := range objects {
					if text(o, "data", "edition") == edition {
						return nil
					}
				}
				return fmt.Errorf("%s is not of edition %s", id, edition)
			})
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		s.Await(t, kind, s.NS, id, available)
	}

	t.Log("the first wave is not ready: the rollout stops there")
	s.Apply(t, lots("two"))
	awaitRollout(v1alpha1.RolloutStopped, 1)
	editions(map[string]string{"a": "one", "b": "one", "c": "two"})
	s.AwaitEventOn(t, s.Get(t, compositionKind, "", name), "RolloutStopped", s.NS+"/c (")

	t.Log("it continues with the last wave once it is ready")
	mergePatch(t, s, kind, s.NS, "c", `{"spec":{"two":"yes"}}`)
	awaitRollout(v1alpha1.RolloutStopped, 2)
	editions(map[string]string{"a": "two", "b": "two", "c": "two"})

	t.Log("a rollback reaches all at once, and ends the rollout")
	mergePatch(t, s, compositionKind, "", name, `{"metadata":{"annotations":{"espalier.dev/rollback-to":"1","espalier.dev/rollback-from":"2"}}}`)
	editions(map[string]string{"a": "one", "b": "one", "c": "one"})
	for _, id := range []string{"a", "b", "c"} {
		s.Await(t, kind, s.NS, id, available)
	}

	t.Log("without it, the revision is rolled out again, to the end")
	mergePatch(t, s, kind, s.NS, "a", `{"spec":{"two":"yes"}}`)
	mergePatch(t, s, kind, s.NS, "b", `{"spec":{"two":"yes"}}`)
	mergePatch(t, s, compositionKind, "", name, `{"metadata":{"annotations":{"espalier.dev/rollback-to":null,"espalier.dev/rollback-from":null}}}`)
	awaitRollout(v1alpha1.RolloutComplete, 0)
	editions(map[string]string{"a": "two", "b": "two", "c": "two"})

	t.Log("former content gets its revision back, with a new number, and is rolled out, too")
	mergePatch(t, s, kind, s.NS, "c", `{"spec":{"one":"no"}}`)
	s.Apply(t, first)
	awaitRollout(v1alpha1.RolloutStopped, 1)
	editions(map[string]string{"a": "two", "b": "two", "c": "one"})
	mergePatch(t, s, kind, s.NS, "c", `{"spec":{"one":"yes"}}`)
	awaitRollout(v1alpha1.RolloutComplete, 0)
	editions(map[string]string{"a": "one", "b": "one", "c": "one"})

	t.Log("and without annotations, nothing is recorded")
	mergePatch(t, s, compositionKind, "", name, `{"metadata":{"annotations":{"espalier.dev/rollout":null}}}`)
	s.AwaitList(t, compositionRevisionKind, "", selector, func(objects map[string]*unstructured.Unstructured) error {
		for _, o := range objects {
			if state := o.GetAnnotations()[v1alpha1.RolloutStateAnnotation]; state != "" {
				return fmt.Errorf("%s records %s", o.GetName(), state)
			}
		}
		return nil
	})
	if n := len(s.List(t, compositionRevisionKind, "", selector)); n != 2 {
		t.Errorf("there are %d revisions: annotations about revisions made one", n)
	}
}
