// Package aws tests the AWS provider as its users meet it: on a real API server, and on a test cloud that
// others have implemented. What exists is judged by the cloud's native APIs. The Cloud Control API of the test
// cloud is ours.
package aws

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	aws "github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/providers/aws/account"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// cloud is the test cloud of all tests of the package.
var cloud *awscloud.Cloud

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if cloud, err = awscloud.Run(context.Background(), awscloud.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	testkit.AtExit(cloud.Stop)
	provider := aws.Provider(aws.Options{Account: account.Options{LocalEndpoints: true}, Settle: time.Second})
	return suite.Main(m, server.Options{Providers: []managed.Provider{provider}, Settings: server.Settings{Poll: metav1.Duration{Duration: poll}}}, nil)
}

// poll is how often resources at rest are observed: by default, those that are read one by one are observed
// less often.
const poll = time.Second

var (
	activationKind = v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceTypeActivationKind)
	activated      sync.Once
)

// newSuite returns a Suite in which the types of all lives are served, and a configuration for the test cloud.
func newSuite(t *testing.T) suite.Suite {
	t.Helper()
	s := suite.New(t)
	activated.Do(func() { activate(t, s) })
	s.AwaitReady(t, activationKind, "", "lives")
	return s
}

func activate(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, kind := range []string{"resourcetypeactivations", "clusterproviderconfigs"} {
		s.Await(t, suite.CRD, "", kind+"."+v1alpha1.GroupVersion.Group, func(o *unstructured.Unstructured) error {
			if o == nil || testkit.ConditionStatus(o, "Established") != "True" {
				return fmt.Errorf("%s is not served", kind)
			}
			return nil
		})
	}
	var types []string
	for _, life := range awscloud.Lives() {
		types = append(types, life.Type)
		for _, need := range life.Needs {
			types = append(types, need.Type)
		}
	}
	slices.Sort(types)
	var groups []string
	for _, name := range types {
		groups = append(groups, kindOf(t, name).Group)
	}
	slices.Sort(groups)
	s.AllowComposing(t, slices.Compact(groups)...)
	s.Apply(t, `
apiVersion: aws.espalier.dev/v1alpha1
kind: ResourceTypeActivation
metadata: {name: lives}
spec: {types: ["`+strings.Join(slices.Compact(types), `", "`)+`"]}
---
apiVersion: v1
kind: Secret
metadata: {name: aws, namespace: default}
stringData: {accessKeyId: test, secretAccessKey: test}
---
apiVersion: aws.espalier.dev/v1alpha1
kind: ClusterProviderConfig
metadata: {name: default}
spec:
  region: `+awscloud.DefaultRegion+`
  credentials: {source: Secret, secretRef: {name: aws, namespace: default}}
  endpoint: {url: "`+cloud.Endpoint+`"}
  allow: [ForeignResources]
`)
}

// kindOf is the kind of a type.
func kindOf(t *testing.T, typeName string) schema.GroupVersionKind {
	t.Helper()
	kind, err := naming.Of(typeName, false)
	if err != nil {
		t.Fatal(err)
	}
	return kind.GroupVersionKind()
}

// create creates a managed resource of a type.
func create(t *testing.T, s suite.Suite, typeName, name string, forProvider map[string]any, edits ...func(*unstructured.Unstructured)) {
	t.Helper()
	kind := kindOf(t, typeName)
	forProvider = withSecrets(t, s, typeName, name, forProvider)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": forProvider}}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(s.NS)
	o.SetName(name)
	o.SetAnnotations(map[string]string{resource.PollIntervalAnnotation: poll.String()})
	for _, edit := range edits {
		edit(o)
	}
	if _, err := s.Resource(t, kind, s.NS).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create %s %s: %v", kind.Kind, name, err)
	}
}

// withSecrets puts secrets into a Secret, since managed resources only refer to them.
func withSecrets(t *testing.T, s suite.Suite, typeName, name string, forProvider map[string]any) map[string]any {
	t.Helper()
	schema, err := catalog.Get(typeName)
	if err != nil {
		t.Fatal(err)
	}
	forProvider = maps.Clone(forProvider)
	for _, path := range resourcetype.SecretPaths(schema) {
		value, ok := forProvider[path[0]].(string)
		if len(path) > 1 || !ok || !resourcetype.IsSecret(path) {
			continue
		}
		s.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\nstringData: {value: %q}\n", name, s.NS, value))
		delete(forProvider, path[0])
		forProvider[path[0]+"SecretRef"] = map[string]any{"name": name, "key": "value"}
	}
	return forProvider
}

// awaitSynced waits until a resource is ready and as its generation specifies, and returns it.
func awaitSynced(t *testing.T, s suite.Suite, typeName, name string) *unstructured.Unstructured {
	t.Helper()
	return s.Await(t, kindOf(t, typeName), s.NS, name, func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("%s %s does not exist", typeName, name)
		}
		if at, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); at != o.GetGeneration() {
			return fmt.Errorf("generation %d is observed, not %d: %s", at, o.GetGeneration(), conditions(o))
		}
		for _, c := range []string{resource.Ready, resource.Synced} {
			if testkit.ConditionStatus(o, c) != "True" {
				return fmt.Errorf("%s %s: %s", typeName, name, conditions(o))
			}
		}
		return nil
	})
}

// conditions describes the conditions of a resource.
func conditions(o *unstructured.Unstructured) string {
	var out []string
	for _, c := range []string{resource.Ready, resource.Synced} {
		out = append(out, fmt.Sprintf("%s %s %s: %s", c, testkit.ConditionStatus(o, c), testkit.ConditionReason(o, c), testkit.ConditionMessage(o, c)))
	}
	return strings.Join(out, "; ")
}

func identifier(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[resource.ExternalNameAnnotation]
}
