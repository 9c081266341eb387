package backup

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// awaitBindings waits until each managed resource of the stock has a Binding that names its
// external resource.
func (p plane) awaitBindings(t *testing.T) {
	t.Helper()
	err := testkit.AwaitList(t.Context(), p.Resource(t, binding, ""), metav1.ListOptions{}, func(map[string]*unstructured.Unstructured) error {
		bound := 0
		for _, b := range p.bindings(t) {
			if ref, _, _ := unstructured.NestedString(b.Object, "spec", "ref"); ref != "" {
				bound++
			}
		}
		if bound < 4 { // two buckets, a network, and its identity's reservation
			return fmt.Errorf("%d Bindings are there", bound)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func (p plane) loseBindings(t *testing.T) {
	t.Helper()
	for _, b := range p.bindings(t) {
		p.Delete(t, binding, "", b.GetName())
	}
}

// TestARestoreWithoutBindings takes all Bindings away, unnoticed by stopped and
// of running controllers: each external resource is found again, and none made.
func TestARestoreWithoutBindings(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	there, made := serials(sky), countEffects(sky, cloud.VerbCreate)
	check := func(when string) {
		t.Helper()
		p.awaitBindings(t)
		p.awaitStock(t)
		if diff := cmp.Diff(there, serials(sky)); diff != "" || countEffects(sky, cloud.VerbCreate) != made {
			t.Errorf("%s: in the cloud, -before +after:\n%s", when, diff)
		}
	}
	p.loseBindings(t)
	stop := p.run(t, sky)
	check("stopped")
	p.loseBindings(t)
	p.triggerReconciles(t)
	check("running")
	stop()

	t.Log("without the annotations as well")
	p.loseBindings(t)
	for _, gvk := range kindsOfStock {
		for _, o := range p.list(t, gvk, p.ns) {
			body := `{"metadata":{"annotations":{"crossplane.io/external-name":null}}}`
			p.Patch(t, gvk, p.ns, o.GetName(), body)
		}
	}
	stop = p.run(t, sky)
	defer func() { stop() }()
	check("without annotations")
	p.deleteStock(t, sky)
}

// triggerReconciles annotates every managed resource, so that it is reconciled.
func (p plane) triggerReconciles(t *testing.T) {
	t.Helper()
	for _, gvk := range kindsOfStock {
		for _, o := range p.list(t, gvk, p.ns) {
			body := `{"metadata":{"annotations":{"example.com/poked":"` + o.GetResourceVersion() + `"}}}`
			p.Patch(t, gvk, p.ns, o.GetName(), body)
		}
	}
}

// TestResourcesWithAnotherOwnersMarkAreLeftAlone loses the Bindings of resources whose
// marks are another's by then.
func TestResourcesWithAnotherOwnersMarkAreLeftAlone(t *testing.T) {
	sky := newCloud()
	p := newStockedPlane(t, sky)
	there, made := serials(sky), countEffects(sky, cloud.VerbCreate)
	mine := map[cloud.Key]map[string]string{}
	for _, r := range sky.Admin().Resources() {
		mine[r.Key] = r.Tags
		if err := sky.Admin().Retag(r.Key, map[string]string{"espalier-binding": "theirs", "espalier-owner": "Bucket.sandbox.espalier.dev/x/y@elsewhere"}); err != nil {
			t.Fatal(err)
		}
	}
	p.loseBindings(t)
	stop := p.run(t, sky)
	defer stop()
	for gvk, name := range map[string]string{"Bucket": p.storeName(), "Network": p.storeName()} {
		kind := bucket
		if gvk == "Network" {
			kind = network
		}
		p.Await(t, kind, p.ns, name, func(o *unstructured.Unstructured) error {
			if got := testkit.ConditionReason(o, "Synced"); got != "Conflict" {
				return errors.New("Synced because of " + got)
			}
			return nil
		})
	}
	if diff := cmp.Diff(there, serials(sky)); diff != "" || countEffects(sky, cloud.VerbCreate) != made {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	for key, tags := range mine {
		if err := sky.Admin().Retag(key, tags); err != nil {
			t.Fatal(err)
		}
	}
	p.triggerReconciles(t)
	p.awaitStock(t)
	p.deleteStock(t, sky)
}
