package backup

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// awaitBindings waits until each managed resource of the stock has a Binding that names its
// external resource.
func (p plane) awaitBindings(t *testing.T) {
	t.Helper()
	p.AwaitList(t, binding, "", "", func(map[string]*unstructured.Unstructured) error {
		bound := 0
		for _, b := range p.bindings(t) {
			if ref, _, _ := unstructured.NestedString(b.Object, "spec", "ref"); ref != "" {
				bound++
			}
		}
		if bound < 4 { // two buckets, a network, and its identity's reservation
			return fmt.Errorf("%d Bindings exist", bound)
		}
		return nil
	})
}

// deleteBindings deletes all Bindings of the namespace.
func (p plane) deleteBindings(t *testing.T) {
	t.Helper()
	for _, b := range p.bindings(t) {
		p.Delete(t, binding, "", b.GetName())
	}
}

// TestBindingsAreRecreated deletes all Bindings, while the controllers are stopped and while they run:
// they find each external resource again, and create none.
func TestBindingsAreRecreated(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	there, made := serials(fakeCloud), countEffects(fakeCloud, cloud.VerbCreate)
	check := func(when string) {
		t.Helper()
		p.awaitBindings(t)
		p.awaitStock(t)
		if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" || countEffects(fakeCloud, cloud.VerbCreate) != made {
			t.Errorf("%s: in the cloud, -before +after:\n%s", when, diff)
		}
	}
	p.deleteBindings(t)
	stop := p.run(t, fakeCloud)
	check("stopped")
	p.deleteBindings(t)
	p.triggerReconciles(t)
	check("running")
	stop()

	t.Log("also without the external names in annotations")
	p.deleteBindings(t)
	for _, gvk := range kindsOfStock {
		for _, o := range p.list(t, gvk, p.ns) {
			body := `{"metadata":{"annotations":{"crossplane.io/external-name":null}}}`
			p.Patch(t, gvk, p.ns, o.GetName(), body)
		}
	}
	stop = p.run(t, fakeCloud)
	defer func() { stop() }()
	check("without annotations")
	p.deleteStock(t, fakeCloud)
}

// triggerReconciles annotates every managed resource.
func (p plane) triggerReconciles(t *testing.T) {
	t.Helper()
	for _, gvk := range kindsOfStock {
		for _, o := range p.list(t, gvk, p.ns) {
			body := `{"metadata":{"annotations":{"example.com/poked":"` + o.GetResourceVersion() + `"}}}`
			p.Patch(t, gvk, p.ns, o.GetName(), body)
		}
	}
}

// TestResourcesWithTagsOfAnotherOwnerAreNotChanged deletes the Bindings of resources that have tags of
// another owner by then.
func TestResourcesWithTagsOfAnotherOwnerAreNotChanged(t *testing.T) {
	fakeCloud := newCloud()
	p := newStockedPlane(t, fakeCloud)
	there, made := serials(fakeCloud), countEffects(fakeCloud, cloud.VerbCreate)
	mine := map[cloud.Key]map[string]string{}
	for _, r := range fakeCloud.Admin().Resources() {
		mine[r.Key] = r.Tags
		if err := fakeCloud.Admin().Retag(r.Key, map[string]string{"espalier-binding": "theirs", "espalier-owner": "Bucket.sandbox.espalier.dev/x/y@elsewhere"}); err != nil {
			t.Fatal(err)
		}
	}
	p.deleteBindings(t)
	stop := p.run(t, fakeCloud)
	defer stop()
	for gvk, name := range map[string]string{"Bucket": p.storeName(), "Network": p.storeName()} {
		kind := bucket
		if gvk == "Network" {
			kind = network
		}
		p.Await(t, kind, p.ns, name, func(o *unstructured.Unstructured) error {
			if got := testkit.ConditionReason(o, "Synced"); got != "Conflict" {
				return errors.New("Synced has the reason " + got)
			}
			return nil
		})
	}
	if diff := cmp.Diff(there, serials(fakeCloud)); diff != "" || countEffects(fakeCloud, cloud.VerbCreate) != made {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	for key, tags := range mine {
		if err := fakeCloud.Admin().Retag(key, tags); err != nil {
			t.Fatal(err)
		}
	}
	p.triggerReconciles(t)
	p.awaitStock(t)
	p.deleteStock(t, fakeCloud)
}
