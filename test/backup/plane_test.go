package backup

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/migration/backup"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
)

var (
	bucket  = v1alpha1.GroupVersion.WithKind("Bucket")
	network = v1alpha1.GroupVersion.WithKind("Network")
	binding = espalier.GroupVersion.WithKind(espalier.BindingKind)
	hold    = espalier.GroupVersion.WithKind(espalier.HoldKind)

	kindsOfStock = []schema.GroupVersionKind{bucket, network}
)

// plane is an API server with or without controllers.
type plane struct {
	*testkit.Cluster
	config *rest.Config
	group  string
	ns     string
}

func newPlane(t *testing.T, config *rest.Config) plane {
	t.Helper()
	p := plane{Cluster: testkit.NewCluster(t, config), config: config}
	t.Cleanup(func() {
		if t.Failed() {
			p.deleteHolds(t)
		}
	})
	return p
}

// deleteHolds deletes the Holds that a failed test has left: they would pause the controllers of
// the tests that follow.
func (p plane) deleteHolds(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	all := p.Resource(t, hold, "")
	if err := all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete the Holds of a failed test: %v", err)
	}
}

// withNames returns the plane with the namespace and the API group of one test.
func (p plane) withNames(ns, group string) plane {
	p.ns, p.group = ns, group
	return p
}

func (p plane) kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: p.group, Version: "v1alpha1", Kind: name}
}

func (p plane) expand(yaml string) string {
	return strings.NewReplacer("$GROUP", p.group, "$NS", p.ns, "$ID", strings.SplitN(p.group, ".", 2)[0]).Replace(yaml)
}

func (p plane) apply(t *testing.T, yaml string) {
	t.Helper()
	p.Apply(t, p.expand(yaml))
}

// run starts the controllers and returns a function that stops them. Without a cloud, managed
// resources are not reconciled.
func (p plane) run(t *testing.T, fakeCloud *cloud.Cloud) (stop func()) {
	t.Helper()
	var providers []managed.Provider
	if fakeCloud != nil {
		providers = append(providers, sandbox.Provider(fakeCloud))
	}
	c := suite.Start(t, server.Options{Config: p.config, Settings: server.Settings{AllowCRDDeletion: true, Usages: true}, Providers: providers})
	if err := c.WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Stop(); err != nil {
			t.Errorf("the controllers ended: %v", err)
		}
	}
}

// definitions are a store that has a shelf, which has a bucket, named by the client, a network,
// named by the cloud, and a note about them.
var definitions = suite.Graph("Shelf", `spec: {versioning: boolean | default=false}, status: {url: "${bucket.status.atProvider.url}"}`, `
    - id: bucket
      template: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, metadata: {name: "${schema.metadata.name}"}, spec: {forProvider: {versioning: "${schema.spec.versioning}"}}}
    - id: network
      template: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Network, metadata: {name: "${schema.metadata.name}"}, spec: {forProvider: {cidr: 10.0.0.0/16}}}
    - id: note
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {url: "${bucket.status.atProvider.url}", network: "${network.status.atProvider.id}"}}
`) + `---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-a-store}
spec:
  schema: {apiVersion: v1alpha1, kind: Store, group: $GROUP, status: {url: "${shelf.status.url}"}}
  resources:
    - id: shelf
      template: {apiVersion: $GROUP/v1alpha1, kind: Shelf, metadata: {name: "${schema.metadata.name}"}, spec: {versioning: true}}
`

// stock is a store, and a bucket without an owner.
const stock = `
apiVersion: $GROUP/v1alpha1
kind: Store
metadata: {name: main-$NS, namespace: $NS, labels: {team: a}}
---
apiVersion: sandbox.espalier.dev/v1alpha1
kind: Bucket
metadata: {name: alone-$NS, namespace: $NS, annotations: {example.com/of: somebody}}
spec: {forProvider: {}}
`

func (p plane) storeName() string  { return "main-" + p.ns }
func (p plane) bucketName() string { return "alone-" + p.ns }

// awaitStock waits until the stock is ready.
func (p plane) awaitStock(t *testing.T) {
	t.Helper()
	p.AwaitReady(t, p.kind("Store"), p.ns, p.storeName())
	p.AwaitReady(t, network, p.ns, p.storeName())
	p.AwaitReady(t, bucket, p.ns, p.storeName())
	p.AwaitReady(t, bucket, p.ns, p.bucketName())
}

// newStockedPlane returns a plane with definitions and stock, and with stopped controllers.
func newStockedPlane(t *testing.T, fakeCloud *cloud.Cloud) plane {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	p := newPlane(t, config).withNames(testkit.Namespace(t, config), testkit.Group(t))
	stop := p.run(t, fakeCloud)
	p.apply(t, definitions)
	p.AwaitReady(t, suite.RGD, "", p.expand("$ID-a-store"))
	p.apply(t, stock)
	p.awaitStock(t)
	stop()
	return p
}

// newCloud returns a cloud in which the client names buckets, and the cloud names networks.
func newCloud() *cloud.Cloud {
	return cloud.New(cloud.Options{Journal: &cloud.Journal{}, Behaviours: map[cloud.Type]cloud.Behaviour{
		cloud.TypeNetwork: {Naming: cloud.ProviderAssigned},
	}})
}

// serials are the content of the cloud, by type and identity.
func serials(fakeCloud *cloud.Cloud) map[string]int64 {
	out := map[string]int64{}
	for _, r := range fakeCloud.Admin().Resources() {
		out[string(r.Type)+" "+r.ID] = r.Serial
	}
	return out
}

// countEffects counts the calls of a verb that changed the cloud.
func countEffects(fakeCloud *cloud.Cloud, v cloud.Verb) int {
	return len(fakeCloud.Journal().Select(cloud.Did(v), cloud.HadEffect))
}

// export writes an export of the plane.
func (p plane) export(t *testing.T, selection archive.Selection) []byte {
	t.Helper()
	from, err := backup.Connect(p.config)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	e := backup.Export{Cluster: from, Selection: selection, Version: "test", ID: "x" + p.ns, Now: time.Now(), Progress: t.Logf}
	if _, err := e.Run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// importer prepares an import over a connection.
func (p plane) importer(t *testing.T, config *rest.Config, raw []byte, holder string) *backup.Import {
	t.Helper()
	file, err := archive.Decode(bytes.NewReader(raw), archive.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	to, err := backup.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	return &backup.Import{Cluster: to, File: file, Holder: holder, Patience: testkit.Timeout, Progress: t.Logf}
}

// list are the objects of a kind, by namespace and name.
func (p plane) list(t *testing.T, gvk schema.GroupVersionKind, namespace string) map[string]*unstructured.Unstructured {
	t.Helper()
	list := p.List(t, gvk, namespace, "")
	out := map[string]*unstructured.Unstructured{}
	for i := range list {
		out[list[i].GetNamespace()+"/"+list[i].GetName()] = &list[i]
	}
	return out
}

// bindings are those of the plane's namespace.
func (p plane) bindings(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, b := range p.list(t, binding, "") {
		if owner, _ := archive.Owner(b); owner.Namespace == p.ns {
			out = append(out, b)
		}
	}
	return out
}

// awaitNoBindings waits until no Binding exists.
func (p plane) awaitNoBindings(t *testing.T) {
	t.Helper()
	p.AwaitList(t, binding, "", "", func(map[string]*unstructured.Unstructured) error {
		if n := len(p.bindings(t)); n > 0 {
			return fmt.Errorf("%d Bindings remain", n)
		}
		return nil
	})
}

// checkBindings checks that each managed resource has a Binding with its UID.
func (p plane) checkBindings(t *testing.T, want int) {
	t.Helper()
	got := p.bindings(t)
	if len(got) != want {
		t.Errorf("%d Bindings exist, not %d", len(got), want)
	}
	for _, b := range got {
		owner, uid := archive.Owner(b)
		live := p.Get(t, archive.OwnerKind(b), owner.Namespace, owner.Name)
		if live == nil || live.GetUID() != uid {
			t.Errorf("Binding %s is of %s with UID %s, which does not exist", b.GetName(), owner, uid)
		}
	}
}

// loseStock deletes the stock and its definitions, and nothing in the cloud, as the loss of a
// cluster does. A Hold suspends the controllers meanwhile.
func (p plane) loseStock(t *testing.T) {
	t.Helper()
	p.createHold(t, "lose")
	p.awaitSuspended(t, "lose")
	p.eraseStock(t)
	for _, name := range []string{"$ID-a-store", "$ID-shelf"} {
		p.Delete(t, suite.RGD, "", p.expand(name))
		p.AwaitGone(t, suite.RGD, "", p.expand(name))
	}
	p.Delete(t, hold, "", "lose")
}

// eraseStock deletes the stock and its Bindings, and nothing in the cloud.
func (p plane) eraseStock(t *testing.T) {
	t.Helper()
	for _, gvk := range []schema.GroupVersionKind{p.kind("Store"), p.kind("Shelf"), bucket, network, suite.ConfigMap} {
		for _, o := range p.list(t, gvk, p.ns) {
			p.erase(t, o)
		}
	}
	for _, b := range p.bindings(t) {
		p.erase(t, b)
	}
}

// erase deletes an object with its finalizers.
func (p plane) erase(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	r := p.Resource(t, o.GroupVersionKind(), o.GetNamespace())
	if _, err := r.Patch(t.Context(), o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// kubeconfig writes a kubeconfig of the plane to a file, and returns its path.
func (p plane) kubeconfig(t *testing.T) string {
	t.Helper()
	return testkit.Kubeconfig(t, p.config)
}
