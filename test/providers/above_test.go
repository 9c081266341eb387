package providers

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// Two layers above a bucket: the lower waits for it to be ready, or for a value of it,
// and the upper for the lower.
var layers = suite.Graph("Store", `spec: {}, status: {url: "${bucket.status.atProvider.url}"}`, `
    - id: bucket
      template: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, metadata: {name: "${schema.metadata.name}"}, spec: {forProvider: {versioning: true}}}
      $READY
    - id: note
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {url: "${bucket.status.atProvider.url}"}}
`) + "---" + suite.Graph("Shop", `spec: {}, status: {url: "${store.status.url}"}`, `
    - id: store
      template: {apiVersion: $GROUP/v1alpha1, kind: Store, metadata: {name: "${schema.metadata.name}"}}
`) + `---
`

// TestExternalErrorsAreReportedAtTheTop has the name of a bucket taken by a user, and
// then set free.
func TestExternalErrorsAreReportedAtTheTop(t *testing.T) {
	for name, ready := range map[string]string{
		"where it is waited for to be ready": `readyWhen: ['${bucket.status.atProvider.state == "ACTIVE"}']`,
		"where a value of it is waited for":  "",
	} {
		t.Run(name, func(t *testing.T) {
			s := suite.New(t)
			s.Apply(t, strings.ReplaceAll(layers, "$READY", ready))
			b := "b-" + s.NS
			if _, err := sky.Call(cloud.Request{Verb: cloud.VerbCreate, Key: key(b)}); err != nil {
				t.Fatal(err)
			}
			s.AwaitDefinitions(t, "store")
			s.AwaitDefinitions(t, "shop")
			s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Shop\nmetadata: {name: "+b+", namespace: $NS}\n")
			for _, kind := range []string{"Store", "Shop"} {
				s.Await(t, s.Kind(kind), s.NS, b, func(o *unstructured.Unstructured) error {
					if o == nil {
						return errors.New("does not exist")
					}
					return errors.Join(contains(testkit.ConditionMessage(o, "Ready"), "Conflict"), contains(testkit.ConditionMessage(o, "Ready"), "exists already"))
				})
			}
			if err := sky.Admin().Delete(key(b)); err != nil {
				t.Fatal(err)
			}
			annotate(t, s, b, "crossplane.io/reconcile-requested-at", "now")
			s.AwaitReady(t, s.Kind("Shop"), s.NS, b)
			s.Delete(t, s.Kind("Shop"), s.NS, b)
			s.AwaitGone(t, s.Kind("Shop"), s.NS, b)
		})
	}
}
