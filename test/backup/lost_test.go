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

// rebound waits until each managed resource of the stock has a Binding that names its
// external resource.
func (p plane) rebound(t *testing.T) {
	t.Helper()
	err := testkit.AwaitAny(t.Context(), p.Of(t, binding, ""), metav1.ListOptions{}, func(map[string]*unstructured.Unstructured) error {
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

// TestARestoreWithoutBindings takes all Bindings away, behind the back of stopped and
// of running controllers: each external resource is found again, and none made.
func TestARestoreWithoutBindings(t *testing.T) {
	sky := open()
	p := stocked(t, sky)
	there, made := serials(sky), calls(sky, cloud.VerbCreate)
	check := func(when string) {
		t.Helper()
		p.rebound(t)
		p.ready(t)
		if diff := cmp.Diff(there, serials(sky)); diff != "" || calls(sky, cloud.VerbCreate) != made {
			t.Errorf("%s: in the cloud, -before +after:\n%s", when, diff)
		}
	}
	p.loseBindings(t)
	stop := p.run(t, sky)
	check("stopped")
	p.loseBindings(t)
	p.poke(t)
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
	p.clear(t, sky)
}

// poke changes nothing that counts, so that every managed resource is looked at.
func (p plane) poke(t *testing.T) {
	t.Helper()
	for _, gvk := range kindsOfStock {
		for _, o := range p.list(t, gvk, p.ns) {
			body := `{"metadata":{"annotations":{"example.com/poked":"` + o.GetResourceVersion() + `"}}}`
			p.Patch(t, gvk, p.ns, o.GetName(), body)
		}
	}
}

// TestWhatHasBecomeSomebodyElsesIsLeftAlone loses the Bindings of resources whose
// marks are another's by then.
func TestWhatHasBecomeSomebodyElsesIsLeftAlone(t *testing.T) {
	sky := open()
	p := stocked(t, sky)
	there, made := serials(sky), calls(sky, cloud.VerbCreate)
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
	for gvk, name := range map[string]string{"Bucket": p.store(), "Network": p.store()} {
		kind := bucket
		if gvk == "Network" {
			kind = network
		}
		p.Await(t, kind, p.ns, name, func(o *unstructured.Unstructured) error {
			if got := testkit.ReasonOf(o, "Synced"); got != "Conflict" {
				return errors.New("Synced because of " + got)
			}
			return nil
		})
	}
	if diff := cmp.Diff(there, serials(sky)); diff != "" || calls(sky, cloud.VerbCreate) != made {
		t.Errorf("in the cloud, -before +after:\n%s", diff)
	}
	for key, tags := range mine {
		if err := sky.Admin().Retag(key, tags); err != nil {
			t.Fatal(err)
		}
	}
	p.poke(t)
	p.ready(t)
	p.clear(t, sky)
}
