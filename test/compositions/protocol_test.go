package compositions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// knowing is the composition of a test's function that is given credentials and an object
// of another owner.
var knowing = strings.Replace(coded, `
    functionRef: {name: $ID-function}
`, `
    functionRef: {name: $ID-function}
    credentials:
    - {name: key, source: Secret, secretRef: {namespace: $NS, name: key}}
    requirements:
      requiredResources:
      - {requirementName: others, apiVersion: v1, kind: ConfigMap, namespace: $NS, matchLabels: {for: everybody}}
`, 1)

// TestAFunctionGetsItsStepsInputs and is called again when that changes.
func TestAFunctionGetsItsStepsInputs(t *testing.T) {
	s := suite.New(t)
	serveRawFunction(t, s, func(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		word := string(r.GetCredentials()["key"].GetCredentialData().GetData()["word"])
		var names []string
		for _, other := range r.GetRequiredResources()["others"].GetItems() {
			names = append(names, other.GetResource().GetFields()["data"].GetStructValue().GetFields()["who"].GetStringValue())
		}
		// The ConfigMap by name is required on the way, and so is the schema of its kind.
		named := r.GetRequiredResources()["named"].GetItems()
		response := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{}, Desired: &fnv1.State{}, Requirements: &fnv1.Requirements{
			Resources: map[string]*fnv1.ResourceSelector{"named": {
				ApiVersion: "v1", Kind: "ConfigMap", Namespace: new(s.NS), Match: &fnv1.ResourceSelector_MatchName{MatchName: "named"},
			}},
			Schemas: map[string]*fnv1.SchemaSelector{"itself": {ApiVersion: s.Group + "/v1alpha1", Kind: "Coded"}},
		}}
		if len(named) > 0 {
			names = append(names, "named")
		}
		if r.GetRequiredSchemas()["itself"].GetOpenapiV3() != nil {
			names = append(names, "schema")
		}
		status, err := structpb.NewStruct(map[string]any{"status": map[string]any{"address": word + " " + strings.Join(names, ",")}})
		response.Desired.Composite = &fnv1.Resource{Resource: status}
		return response, err
	})
	s.Apply(t, knowing)
	kind := s.Kind("Coded")
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {}}`)
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", `step "code"`, "Secret "+s.NS+"/key", "doesn't exist")
	})
	shows := func(want string) {
		t.Helper()
		s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
			if got := text(o, "status", "address"); got != want {
				return fmt.Errorf("the status is %q, not %q", got, want)
			}
			return available(o)
		})
	}
	s.Apply(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: $NS, name: key}, stringData: {word: sesame}}`)
	shows("sesame schema")
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: one, labels: {for: everybody}}, data: {who: a}}`)
	shows("sesame a,schema")
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: named}}`)
	shows("sesame a,named,schema")
	s.Apply(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: $NS, name: key}, stringData: {word: open}}`)
	shows("open a,named,schema")
}

// graphed is the kind app, composed by a graph in our own dialect.
var graphed = graphComposition(`        resources:
        - id: below
          template: {apiVersion: v1, kind: ConfigMap, data: {size: "${schema.spec.size}"}}
        - id: above
          template: {apiVersion: v1, kind: ConfigMap, data: {size: "${below.data.size}", base: "${below.metadata.name}"}}
        status: {address: "${above.data.size}"}
`)

// TestAGraphComposesAComposite in its order, and takes it apart in the other.
func TestAGraphComposesAComposite(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, graphed)
	s.Apply(t, shopText)
	kind := s.Kind("App")
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if text(o, "status", "address") != "small" {
			return errors.New("nothing is shown yet")
		}
		return available(o)
	})
	made := composedConfigMaps(t, s, "shop")
	if len(made) != 2 || text(made["above"], "data", "base") != made["below"].GetName() {
		t.Fatalf("there is %v", made)
	}
	// The upper resource is blocked, so the lower ones have to wait for it.
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+made["above"].GetName()+`, finalizers: [example.com/hold]}}`)
	s.Delete(t, kind, s.NS, "shop")
	s.Await(t, kind, s.NS, "shop", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Ready", "False", "Deleting", "example.com/hold")
	})
	if below := s.Get(t, suite.ConfigMap, s.NS, made["below"].GetName()); below == nil || below.GetDeletionTimestamp() != nil {
		t.Errorf("what is below has gone before what is above: %v", below)
	}
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+made["above"].GetName()+`, finalizers: []}}`)
	s.AwaitGone(t, kind, s.NS, "shop")
}

// TestResultsForClaimsReachTheClaim checks that results for the composite only do not.
func TestResultsForClaimsReachTheClaim(t *testing.T) {
	s := suite.New(t)
	to := fnv1.Target_TARGET_COMPOSITE_AND_CLAIM
	serveRawFunction(t, s, func(*fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return &fnv1.RunFunctionResponse{
			Meta: &fnv1.ResponseMeta{}, Desired: &fnv1.State{},
			Conditions: []*fnv1.Condition{
				{Type: "BackedUp", Status: fnv1.Status_STATUS_CONDITION_TRUE, Reason: "Nightly", Target: &to},
				{Type: "Internal", Status: fnv1.Status_STATUS_CONDITION_FALSE, Reason: "Secret"},
			},
			Results: []*fnv1.Result{{Severity: fnv1.Severity_SEVERITY_WARNING, Reason: new("DiskFull"), Message: "clean up", Target: &to}},
		}, nil
	})
	s.Apply(t, strings.NewReplacer(
		"apiextensions.crossplane.io/v2", "apiextensions.crossplane.io/v1", "  scope: Namespaced\n", "  claimNames: {kind: Need, plural: needs}\n",
	).Replace(coded))
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Need, metadata: {namespace: $NS, name: shop}, spec: {}}`)
	claim := s.Await(t, s.Kind("Need"), s.NS, "shop", func(o *unstructured.Unstructured) error {
		if err := hasCondition(o, "BackedUp", "True", "Nightly"); err != nil {
			return err
		}
		return available(o)
	})
	if err := hasCondition(claim, "Internal", "False", "Secret"); err == nil {
		t.Error("the claim shows what is not for its users")
	}
	s.AwaitEvent(t, "shop", "DiskFull", "clean up")
}
