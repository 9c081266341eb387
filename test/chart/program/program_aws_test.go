package program

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestTheAWSProviderRunsAsItsRenderedAccount runs the AWS provider by itself: it serves, and removes, the kind of
// a type of a service of the values. Nothing answers for AWS, so that the object does not get ready.
func TestTheAWSProviderRunsAsItsRenderedAccount(t *testing.T) {
	r := newRelease(t, "providers.aws.enabled=true", "providers.aws.services={sqs}")
	_, stop := r.start(t, "espalier-provider-aws")
	r.Apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: $NS}
stringData: {accessKeyId: test, secretAccessKey: test-test-test}
---
apiVersion: aws.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: $ID}
spec:
  region: eu-central-1
  credentials: {source: Secret, secretRef: {name: key, namespace: $NS}}
  endpoint: {url: "https://127.0.0.1:1"}
---
apiVersion: aws.espalier.dev/v1alpha1
kind: ResourceTypeActivation
metadata: {name: $ID}
spec: {types: ["AWS::SQS::Queue"]}
`)
	activation := schema.GroupVersionKind{Group: "aws.espalier.dev", Version: "v1alpha1", Kind: "ResourceTypeActivation"}
	r.Await(t, activation, "", r.Expand("$ID"), func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionStatus(o, "Ready"); got != "True" {
			return fmt.Errorf("Ready is %q: %s", got, testkit.ConditionMessage(o, "Ready"))
		}
		return nil
	})
	r.Apply(t, `
apiVersion: sqs.aws.espalier.dev/v1alpha1
kind: Queue
metadata: {name: queue, namespace: $NS}
spec:
  providerConfigRef: {name: $ID}
  forProvider: {DelaySeconds: 1}
  writeConnectionSecretToRef: {name: queue}
`)
	queue := schema.GroupVersionKind{Group: "sqs.aws.espalier.dev", Version: "v1alpha1", Kind: "Queue"}
	r.Await(t, queue, r.NS, "queue", func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionMessage(o, "Synced"); !strings.Contains(got, "127.0.0.1") {
			return fmt.Errorf("Synced says %q", got)
		}
		return nil
	})
	r.Delete(t, queue, r.NS, "queue")
	r.AwaitGone(t, queue, r.NS, "queue")
	r.Delete(t, activation, "", r.Expand("$ID"))
	r.AwaitGone(t, activation, "", r.Expand("$ID"))
	stop()
	r.nothingRefused(t)
}

// TestATypeOfAWSWaitsForItsRole activates a type of a service that is not among the values. The provider notices the
// role that 'espalier aws rbac' prints, and requests nothing else that it may not: it cannot read Roles.
func TestATypeOfAWSWaitsForItsRole(t *testing.T) {
	r := newRelease(t, "providers.aws.enabled=true")
	_, stop := r.start(t, "espalier-provider-aws")
	r.Apply(t, `
apiVersion: aws.espalier.dev/v1alpha1
kind: ResourceTypeActivation
metadata: {name: $ID}
spec: {types: ["AWS::SNS::Topic"]}
`)
	activation := schema.GroupVersionKind{Group: "aws.espalier.dev", Version: "v1alpha1", Kind: "ResourceTypeActivation"}
	is := func(status, says string) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error {
			if got := testkit.ConditionMessage(o, "Ready"); testkit.ConditionStatus(o, "Ready") != status || !strings.Contains(got, says) {
				return fmt.Errorf("Ready is %q: %s", testkit.ConditionStatus(o, "Ready"), got)
			}
			return nil
		}
	}
	r.Await(t, activation, "", r.Expand("$ID"), is("False", "espalier aws rbac AWS::SNS::Topic"))
	code, role := r.call(t, "aws", "rbac", "AWS::SNS::Topic")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, role)
	}
	r.Apply(t, role)
	suite.AwaitAggregated(t, r.Config)
	r.Await(t, activation, "", r.Expand("$ID"), is("True", ""))
	r.Delete(t, activation, "", r.Expand("$ID"))
	r.AwaitGone(t, activation, "", r.Expand("$ID"))
	stop()
	r.mu.Lock()
	r.refused = slices.DeleteFunc(r.refused, func(request string) bool { return strings.Contains(request, "sns.aws.espalier.dev") })
	r.mu.Unlock()
	r.nothingRefused(t)
}
