// Package crash proves that the AWS provider makes each resource exactly once: the controllers crash at their writes
// to the API server, and calls of AWS fail, are lost or are answered late. What exists is judged by the native APIs
// of the test cloud.
package crash

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	aws "github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/providers/aws/account"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// cloud is the test cloud of all tests of the package. Its clock is that of the controllers.
var cloud *awscloud.Cloud

var bindingKind = espalier.GroupVersion.WithKind(espalier.BindingKind)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	manager.NewLogger(io.Discard, manager.LogText, 0) // it sets the global logger, before anything logs
	var err error
	if cloud, err = awscloud.Run(context.Background(), awscloud.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	testkit.AtExit(cloud.Stop)
	return testkit.Main(m)
}

// settle is how long the controllers expect that the test cloud shows a former state, which it never does.
const settle = 100 * time.Millisecond

// plane is the API server, on which each test runs controllers of its own.
type plane struct {
	*testkit.Cluster
	config *rest.Config
	// options are those of the provider; change changes those of the controllers, and is optional.
	options aws.Options
	change  func(*server.Options)
}

var prepared sync.Once

// newPlane returns the API server with the test's types and a configuration for the test cloud.
func newPlane(t *testing.T) *plane {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	p := &plane{
		Cluster: testkit.NewCluster(t, config), config: config,
		options: aws.Options{Account: account.Options{LocalEndpoints: true}, Settle: settle, Now: cloud.Now},
	}
	prepared.Do(func() { p.prepare(t) })
	t.Cleanup(func() {
		cloud.ClearFaults()
		cloud.SetRepeat(awscloud.RepeatAnswersEvent)
	})
	return p
}

func (p *plane) prepare(t *testing.T) {
	t.Helper()
	stop := p.start(t, p.config)
	defer stop()
	for _, kind := range []string{"resourcetypeactivations", "clusterproviderconfigs"} {
		p.Await(t, suite.CRD, "", kind+"."+v1alpha1.GroupVersion.Group, func(o *unstructured.Unstructured) error {
			if o == nil || testkit.ConditionStatus(o, "Established") != "True" {
				return fmt.Errorf("%s is not served", kind)
			}
			return nil
		})
	}
	names := []string{"AWS::CloudFront::OriginAccessControl"}
	for _, m := range members {
		names = append(names, m.typ)
	}
	slices.Sort(names)
	p.Apply(t, `
apiVersion: aws.espalier.dev/v1alpha1
kind: ResourceTypeActivation
metadata: {name: crash}
spec: {types: ["`+strings.Join(slices.Compact(names), `", "`)+`"]}
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
	p.AwaitReady(t, v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceTypeActivationKind), "", "crash")
}

// start runs controllers with new state, as a new process does, and returns a function that stops them.
func (p *plane) start(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	o := server.Options{Config: config, Providers: []managed.Provider{aws.Provider(p.options)}, Now: cloud.Now, Settings: server.Settings{Workers: 8}}
	if p.change != nil {
		p.change(&o)
	}
	c := suite.Start(t, o)
	return func() { _ = c.Stop() } // a crash is an error
}

func kindOf(t *testing.T, typ string) schema.GroupVersionKind {
	t.Helper()
	kind, err := naming.Of(typ, false)
	if err != nil {
		t.Fatal(err)
	}
	return kind.GroupVersionKind()
}

func identifier(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[resource.ExternalNameAnnotation]
}

// isSynced checks that a generation is ready and as specified.
func isSynced(generation int64) suite.Check {
	return suite.All(func(o *unstructured.Unstructured) error {
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if observed < generation {
			return fmt.Errorf("generation %d is observed, not %d", observed, generation)
		}
		return nil
	}, suite.HasCondition(resource.Synced, "True", ""), suite.HasCondition(resource.Ready, "True", ""))
}

// owned returns the resources of a type that carry the mark of an object, as native APIs list them.
func owned(t *testing.T, typ, ns, name string) []awscloud.Found {
	t.Helper()
	all, err := cloud.Find(t.Context(), typ, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f awscloud.Found) bool {
		return !strings.Contains(f.Tags()["espalier.dev/owner"], "/"+ns+"/"+name+"@")
	})
}
