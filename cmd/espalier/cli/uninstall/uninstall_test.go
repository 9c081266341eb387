package uninstall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// installed is an installation in namespace ours, and objects of other namespaces and programs.
const installed = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: espalier, namespace: ours, labels: $LABELS}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: espalier-controllers, namespace: ours, labels: $LABELS}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: of-somebody, namespace: other, labels: $LABELS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: espalier-impersonate, namespace: team, labels: $LABELS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: of-somebody, namespace: other, labels: $LABELS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: espalier-controllers, labels: $LABELS}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: bindings.espalier.dev
  labels: {kro.run/owned: "true"}
  annotations: {lease.espalier.dev/espalier.espalier.dev: ours, lease.espalier.dev/postgresql.espalier.dev: other}
spec: {group: espalier.dev, names: {kind: Binding, plural: bindings}, versions: [{name: v1, served: true, storage: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec: {group: example.org, names: {kind: Thing, plural: things}, versions: [{name: v1, served: true, storage: true}]}
---
apiVersion: example.org/v1
kind: Thing
metadata:
  name: composed
  namespace: team
  finalizers: [kro.run/finalizer]
  managedFields: [{manager: kro.run/applyset-parent, fieldsV1: {"f:metadata": {"f:finalizers": {'v:"kro.run/finalizer"': {}}}}}]
`

// newFake is a cluster with the objects of a YAML text, in the view of a namespace.
func newFake(t *testing.T, namespace, text string) (*Cluster, *fake.FakeDynamicClient) {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{
		deployments: "DeploymentList", leases: "LeaseList", crdResource: "CustomResourceDefinitionList", pods: "PodList", configurations: "ValidatingWebhookConfigurationList",
		{Group: "espalier.dev", Version: "v1", Resource: "bindings"}: "BindingList", {Group: "example.org", Version: "v1", Resource: "things"}: "ThingList",
		{Group: "apps", Version: "v1", Resource: "statefulsets"}: "StatefulSetList", {Group: "apps", Version: "v1", Resource: "replicasets"}: "ReplicaSetList",
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}: "ValidatingAdmissionPolicyList",
		{Group: "example.org", Version: "v1", Resource: "broken"}:                                       "BrokenList", {Group: "example.org", Version: "v1", Resource: "shops"}: "ShopList",
		{Group: "example.org", Version: "v2", Resource: "shops"}: "ShopList", {Group: "example.org", Version: "v1", Resource: "hidden"}: "HiddenList",
	}
	for _, o := range objects {
		kinds[o.resource] = "List"
	}
	var all []runtime.Object
	labels := "{app.kubernetes.io/part-of: espalier, app.kubernetes.io/name: espalier}"
	for _, document := range strings.Split(strings.ReplaceAll(text, "$LABELS", labels), "\n---\n") {
		o := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		if err := o.UnmarshalJSON(raw); err != nil { // numbers as the client has them
			t.Fatal(err)
		}
		all = append(all, o)
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, all...)
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return isDryRun(action), nil, nil // as the API server, which the tracker of client-go is not
	})
	served := map[string]*metav1.APIResourceList{}
	for resource, list := range kinds {
		gv := resource.GroupVersion().String()
		if served[gv] == nil {
			served[gv] = &metav1.APIResourceList{GroupVersion: gv}
		}
		served[gv].APIResources = append(served[gv].APIResources, metav1.APIResource{
			Name: resource.Resource, Kind: strings.TrimSuffix(list, "List"), Verbs: metav1.Verbs{"delete", "list"},
		})
	}
	found := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: slices.Collect(maps.Values(served))}}
	return &Cluster{Cluster: reader.NewFor(client, found), namespace: namespace}, client
}

func isDryRun(action clienttesting.Action) bool {
	switch a := action.(type) {
	case clienttesting.DeleteActionImpl:
		return a.DeleteOptions.DryRun != nil
	case clienttesting.DeleteCollectionActionImpl:
		return a.DeleteOptions.DryRun != nil
	case clienttesting.PatchActionImpl:
		return a.PatchOptions.DryRun != nil
	}
	return false
}

// writes are the requests of a client that change something.
func writes(client *fake.FakeDynamicClient) (out []string) {
	for _, action := range client.Actions() {
		if named, isNamed := action.(interface{ GetName() string }); isNamed && action.GetVerb() != "get" && !isDryRun(action) {
			out = append(out, strings.TrimSpace(action.GetVerb()+" "+action.GetResource().Resource+" "+strings.TrimPrefix(action.GetNamespace()+"/"+named.GetName(), "/")))
		}
	}
	return out
}

func TestAnotherNamespaceIsRefusedBeforeAnythingIsRemoved(t *testing.T) {
	withoutDeployment := installed[strings.Index(installed, "---"):]
	for name, text := range map[string]string{"With the Deployment": installed, "Without it, by the recorded lease": withoutDeployment} {
		t.Run(name, func(t *testing.T) {
			cluster, client := newFake(t, "other", strings.TrimPrefix(text, "---"))
			want := "the installation is in namespace ours, not in other: use --namespace ours"
			if _, err := cluster.Remaining(t.Context()); err == nil || err.Error() != want {
				t.Errorf("Remaining: %v", err)
			}
			if err := cluster.Remove(t.Context(), func(string) {}); err == nil || err.Error() != want {
				t.Errorf("Remove: %v", err)
			}
			if got := writes(client); got != nil {
				t.Errorf("it has changed something: %q", got)
			}
		})
	}
}

func TestStoppingIsReportedOnlyOfControllersInTheCluster(t *testing.T) {
	withoutDeployment := installed[strings.Index(installed, "---"):]
	for name, tc := range map[string]struct{ text, want string }{
		"A Deployment runs them": {installed, "the controllers are stopped"},
		"They run elsewhere":     {withoutDeployment, "no controllers run in namespace ours; stop those that run outside of the cluster, such as by 'espalier up': they write the webhook for deletions again"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, _ := newFake(t, "ours", strings.TrimPrefix(tc.text, "---"))
			var steps []string
			if err := cluster.Remove(t.Context(), func(step string) { steps = append(steps, step) }); err != nil {
				t.Fatal(err)
			}
			if steps[1] != tc.want {
				t.Errorf("got %q, want %q", steps[1], tc.want)
			}
		})
	}
}

func TestOnlyTheInstallationIsRemoved(t *testing.T) {
	cluster, client := newFake(t, "ours", installed+`
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: espalier.espalier.dev-1a2b3c4d5e, namespace: ours} # of an installation with --watch-namespaces
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: program-of-somebody, namespace: ours}
`)
	if err := cluster.Remove(t.Context(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	got := writes(client)
	const webhook = "delete validatingwebhookconfigurations usages.espalier.dev"
	if stopped := slices.Index(got, "delete deployments ours/espalier"); !slices.Contains(got[:stopped], webhook) || !slices.Contains(got[stopped:], webhook) {
		t.Error("the webhook is not removed before and after the controllers, which may have written it again")
	}
	for _, want := range []string{
		"delete deployments ours/espalier", "delete serviceaccounts ours/espalier-controllers", "delete roles team/espalier-impersonate",
		"delete clusterroles espalier-controllers", "delete leases ours/espalier.espalier.dev", "delete leases ours/espalier.espalier.dev-1a2b3c4d5e", "delete leases ours/aws.espalier.dev", "patch customresourcedefinitions bindings.espalier.dev",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("lacks: %s", want)
		}
	}
	for _, request := range got {
		if strings.Contains(request, "of-somebody") {
			t.Errorf("it removes what is not the installation's: %s", request)
		}
	}
	recorded, err := cluster.recordedLeases(t.Context())
	if err != nil || len(recorded) != 1 || recorded["lease.espalier.dev/postgresql.espalier.dev"] != "other" {
		t.Errorf("recorded leases: %v, %v", recorded, err)
	}
}

func TestNothingIsRemovedWithoutAllPermissions(t *testing.T) {
	for _, forbidden := range []struct{ verb, resource string }{
		{"delete", "deployments"}, {"list", "servicemonitors"}, {"delete", "clusterroles"}, {"list", "leases"}, {"delete", "leases"}, {"patch", "customresourcedefinitions"},
	} {
		t.Run(forbidden.verb+" "+forbidden.resource, func(t *testing.T) {
			cluster, client := newFake(t, "ours", installed)
			client.PrependReactor(forbidden.verb, forbidden.resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", errors.New("no permission"))
			})
			err := cluster.Remove(t.Context(), func(string) {})
			if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "nothing was removed, because that needs a cluster administrator: ") {
				t.Errorf("got %v", err)
			}
			if got := writes(client); got != nil {
				t.Errorf("it has changed something: %q", got)
			}
		})
	}
}

// TestObjectsOfAnotherReleaseAreListed has objects of a release whose chart this program does not know.
func TestObjectsOfAnotherReleaseAreListed(t *testing.T) {
	cluster, client := newFake(t, "ours", installed+`
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: espalier, namespace: ours, labels: $LABELS}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: espalier-1, namespace: ours, labels: $LABELS, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: espalier, uid: "1"}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: espalier-service-accounts, labels: $LABELS}
---
apiVersion: v1
kind: Pod
metadata: {name: espalier-0, namespace: ours, labels: $LABELS, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: espalier, uid: "2", controller: true}]}
`)
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("forbidden")
	})
	remaining, err := cluster.Remaining(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(remaining.Unsearched, []string{"configmaps"}) {
		t.Errorf("unsearched: %q", remaining.Unsearched)
	}
	client.ReactionChain = client.ReactionChain[1:]
	want := []string{"Role other/of-somebody", "ServiceAccount other/of-somebody", "StatefulSet ours/espalier"}
	if !slices.Equal(remaining.Others, want) || remaining.Unreadable != nil {
		t.Errorf("got %q, want %q; unreadable: %q", remaining.Others, want, remaining.Unreadable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as after the timeout
	if err := cluster.stop(ctx); err == nil || err.Error() != "pod espalier-0 of StatefulSet espalier has not ended" {
		t.Errorf("stop: %v", err)
	}

	if err := client.Tracker().Delete(pods, "ours", "espalier-0"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Remove(t.Context(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	after, err := cluster.Remaining(t.Context())
	if err != nil || !slices.Equal(after.Others, want) {
		t.Errorf("what is left is not what was listed before: %q, %v", after.Others, err)
	}
}

// TestFinalizersWithoutAManagerAreReleased has instances with a finalizer that has no field manager, of a kind that the
// controllers have written and of another one, and one with the finalizer of another program.
func TestFinalizersWithoutAManagerAreReleased(t *testing.T) {
	const instance = `
---
apiVersion: example.org/v1
kind: %s
metadata:
  name: %s
  namespace: team
  finalizers: [kro.run/finalizer, example.org/backup]
  managedFields: [{manager: kubectl, fieldsV1: {"f:spec": {}}}, {manager: backup, fieldsV1: {"f:metadata": {"f:finalizers": {'v:"example.org/backup"': {}}}}}]
`
	cluster, client := newFake(t, "ours", installed[:strings.LastIndex(installed, "---")]+`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.org, labels: {kro.run/owned: "true"}}
spec: {group: example.org, names: {kind: Shop, plural: shops}, versions: [{name: v1, served: true, storage: true}]}`+
		fmt.Sprintf(instance, "Shop", "created")+fmt.Sprintf(instance, "Thing", "foreign")+
		strings.Replace(fmt.Sprintf(instance, "Shop", "of-kro"), `'v:"example.org/backup"': {}`, `'v:"example.org/backup"': {}, 'v:"kro.run/finalizer"': {}`, 1))
	remaining, err := cluster.Remaining(t.Context())
	if err != nil || len(remaining.Kinds) != 1 || remaining.Kinds[0].Kind != "Shop.example.org" || remaining.Kinds[0].Finalizers != 1 {
		t.Errorf("Remaining: %+v, %v", remaining, err)
	}
	if released, _, err := cluster.Release(t.Context()); err != nil || released != 1 {
		t.Errorf("Release: %d, %v", released, err)
	}
	want := map[string][]string{"created": {"example.org/backup"}, "of-kro": {"kro.run/finalizer", "example.org/backup"}}
	for name, want := range want {
		o, err := client.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "shops"}).Namespace("team").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || !slices.Equal(o.GetFinalizers(), want) {
			t.Errorf("%s has %q, want %q (%v)", name, o.GetFinalizers(), want, err)
		}
	}
}

// TestUnreadableKindsAreReported has a kind of another program with a conversion webhook that is gone.
func TestUnreadableKindsAreReported(t *testing.T) {
	cluster, client := newFake(t, "ours", installed+`
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: broken.example.org}
spec: {group: example.org, names: {kind: Broken, plural: broken}, versions: [{name: v1, served: true, storage: true}]}
`)
	client.PrependReactor("list", "broken", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("conversion webhook failed")
	})
	want := []string{"list broken.example.org: conversion webhook failed"}
	remaining, err := cluster.Remaining(t.Context())
	if err != nil || !slices.Equal(remaining.Unreadable, want) || remaining.Count("Thing.example.org") != 1 {
		t.Errorf("Remaining: %+v, %v", remaining, err)
	}
	released, unreadable, err := cluster.Release(t.Context())
	if err != nil || released != 1 || !slices.Equal(unreadable, want) {
		t.Errorf("Release: %d, %q, %v", released, unreadable, err)
	}

	client.PrependReactor("list", "bindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("timeout")
	})
	if _, _, err := cluster.Release(t.Context()); err == nil || err.Error() != "list bindings.espalier.dev: timeout" {
		t.Errorf("a kind of the controllers: %v", err)
	}
}

// TestObjectsOfKindsThatDoNotServeTheStoredVersion has a kind of which only another version than the stored one is served, and one
// of which none is.
func TestObjectsOfKindsThatDoNotServeTheStoredVersion(t *testing.T) {
	const text = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.org, labels: {kro.run/owned: "true"}}
spec: {group: example.org, names: {kind: Shop, plural: shops}, versions: [{name: v1, served: false, storage: true}, {name: v2, served: true, storage: false}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: hidden.example.org, labels: {kro.run/owned: "true"}}
spec: {group: example.org, names: {kind: Hidden, plural: hidden}, versions: [{name: v1, served: false, storage: true}]}
---
apiVersion: example.org/v2
kind: Shop
metadata:
  name: one
  namespace: team
  finalizers: [kro.run/finalizer]
  managedFields: [{manager: kro.run/applyset-parent, fieldsV1: {"f:metadata": {"f:finalizers": {'v:"kro.run/finalizer"': {}}}}}]
`
	cluster, client := newFake(t, "ours", text)
	const want = "list hidden.example.org: no version is served"
	remaining, err := cluster.Remaining(t.Context())
	if err != nil || len(remaining.Kinds) != 1 || remaining.Kinds[0].Finalizers != 1 || !slices.Equal(remaining.Unreadable, []string{want}) {
		t.Errorf("Remaining: %+v, %v", remaining, err)
	}
	if released, _, err := cluster.Release(t.Context()); released != 1 || err == nil || err.Error() != want {
		t.Errorf("Release: %d, %v", released, err)
	}
	if got := writes(client); !slices.Equal(got, []string{"patch shops team/one"}) {
		t.Errorf("writes: %q", got)
	}
}

// lease is the Lease of the controllers, which is renewed each time that it is read, as by a program that runs.
const lease = `
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: espalier.espalier.dev, namespace: ours}
spec: {holderIdentity: %q, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}
`

func TestProgramsThatRunElsewhereAreNotUninstalled(t *testing.T) {
	for name, tc := range map[string]struct {
		holder  string
		renewed bool
		want    string
		waits   time.Duration
	}{
		"A program renews its lease": {
			holder: "laptop_1", renewed: true, waits: 2 * time.Second,
			want: "laptop_1 renews Lease ours/espalier.espalier.dev, though no pod of the installation is left: it would write the webhook and the finalizers again; stop that program",
		},
		"The holder has ended without releasing it": {holder: "laptop_1", waits: 16 * time.Second},
		"Nobody holds it": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, client := newFake(t, "ours", installed+fmt.Sprintf(lease, tc.holder))
				began := time.Now()
				client.PrependReactor("get", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
					o, err := client.Tracker().Get(action.GetResource(), action.GetNamespace(), action.(clienttesting.GetAction).GetName())
					if err == nil && tc.renewed && time.Since(began) >= 2*time.Second {
						renewed := o.(*unstructured.Unstructured).DeepCopy()
						_ = unstructured.SetNestedField(renewed.Object, "2026-01-01T00:00:02.000000Z", "spec", "renewTime")
						o = renewed
					}
					return true, o, err
				})
				err := cluster.Remove(t.Context(), func(string) {})
				if got := fmt.Sprint(err); err != nil && got != tc.want || err == nil && tc.want != "" {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if got := time.Since(began); got != tc.waits {
					t.Errorf("it has waited %s, want %s", got, tc.waits)
				}
				if removed := slices.Contains(writes(client), "delete clusterroles espalier-controllers"); removed != (tc.want == "") {
					t.Errorf("what the programs need is removed: %v", removed)
				}
			})
		})
	}
}
