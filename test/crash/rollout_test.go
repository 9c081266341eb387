package crash

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// lot is a composition of one ConfigMap; edition is a value in it.
func lot(edition, annotations string) string {
	return strings.Replace(suite.Composition("lot", "Lot", suite.PatchAndTransform(`
      - {name: note, base: {apiVersion: v1, kind: ConfigMap, data: {edition: `+edition+`}}, readinessChecks: [{type: None}]}
`)), "name: $ID-lot", "name: $ID-lot, annotations: {"+annotations+"}", 1)
}

// TestSweepARevisionOfACompositionIsRolledOut crashes the controllers after writes of a rollout in waves. It always ends with the
// new revision for all composites, each of which has one object.
func TestSweepARevisionOfACompositionIsRolledOut(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	revisions := schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositionRevision"}
	names := []string{"a", "b", "c", "d"}
	rollOut := func(n int) (writes int) {
		s := suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}
		kind := s.Kind("Lot")
		stop := steps.Run(t, config)
		s.Apply(t, suite.XRD("v2", "Lot", "size: {type: string}", "")+"---"+lot("one", ""))
		for _, name := range names {
			s.Apply(t, fmt.Sprintf(`{apiVersion: $GROUP/v1alpha1, kind: Lot, metadata: {namespace: $NS, name: %s}, spec: {size: s}}`, name))
		}
		for _, name := range names {
			s.AwaitReady(t, kind, s.NS, name)
		}
		stop()

		crash := testkit.NewCrash(n)
		stop = crash.RunAndRestart(config, func(c *rest.Config) func() { return steps.Run(t, c) })
		s.Apply(t, lot("two", "espalier.dev/rollout: 'waves: [{percent: 50}]'"))
		newest := ""
		s.AwaitList(t, revisions, "", "crossplane.io/composition-name="+s.Name("lot"), func(objects map[string]*unstructured.Unstructured) error {
			complete := false
			for name, o := range objects {
				complete = complete || strings.Contains(o.GetAnnotations()[v1alpha1.RolloutStateAnnotation], `"phase":"Complete"`)
				if number, _, _ := unstructured.NestedInt64(o.Object, "spec", "revision"); number == 2 {
					newest = name
				}
			}
			if !complete || newest == "" || len(objects) != 2 {
				return errors.New("the rollout is not complete")
			}
			return nil
		})
		for _, name := range names {
			s.Await(t, kind, s.NS, name, suite.All(testkit.IsReady, suite.HasField(newest[strings.LastIndex(newest, "/")+1:], "spec", "crossplane", "compositionRevisionRef", "name")))
		}
		s.AwaitList(t, suite.ConfigMap, s.NS, "crossplane.io/composite", func(objects map[string]*unstructured.Unstructured) error {
			for name, o := range objects {
				if edition, _, _ := unstructured.NestedString(o.Object, "data", "edition"); edition != "two" {
					return fmt.Errorf("%s is of edition %s", name, edition)
				}
			}
			if len(objects) != len(names) {
				return fmt.Errorf("there are %d objects", len(objects))
			}
			return nil
		})
		stop()
		return crash.Writes()
	}
	points, writes := 0, rollOut(0)
	for n := 1; n <= writes; n += testkit.Size(6, 1) {
		points++
		rollOut(n)
	}
	testkit.Report(t, "rollout of a composition: %d crash points of %d writes", points, writes)
}
