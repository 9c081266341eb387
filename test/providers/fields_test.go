package providers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// fill applies a bucket with the whole of its spec, as YAML in one line.
func fill(t *testing.T, s suite.Suite, name, spec string) {
	t.Helper()
	s.Apply(t, fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: $NS}\nspec: {%s}\n", name, spec))
}

func key(name string) cloud.Key { return cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: name} }

// versioned reports whether a bucket in the cloud has versions.
func versioned(t *testing.T, name string) bool {
	t.Helper()
	there := inCloud(t, name)
	if there == nil {
		t.Fatalf("there is no %s", name)
	}
	return there.Properties.Versioning
}

// handled checks that a requested reconcile was handled.
func handled(when string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if got, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt"); got != when {
			return fmt.Errorf("the last look that was asked for is of %q", got)
		}
		return is("ReconcileSuccess")(o)
	}
}

func TestFieldsAreLateInitializedIfThePoliciesAllowIt(t *testing.T) {
	s := suite.New(t)
	n := 0
	for policies, late := range map[string]bool{"'*'": true, "Observe, Create, Update, Delete": false, "Observe, Create, LateInitialize": true, "Observe, Create": false} {
		n++
		name := fmt.Sprintf("b%d-%s", n, s.NS)
		fill(t, s, name, "managementPolicies: ["+policies+"], forProvider: {versioning: true}, initProvider: {}")
		o := s.Await(t, bucket, s.NS, name, func(o *unstructured.Unstructured) error {
			if _, said, _ := unstructured.NestedBool(o.Object, "spec", "forProvider", "public"); said != late {
				return fmt.Errorf("[%s]: spec.forProvider.public is set: %t", policies, said)
			}
			return isNamed(name)(o)
		})
		if on, _, _ := unstructured.NestedBool(o.Object, "spec", "forProvider", "versioning"); !on {
			t.Errorf("[%s]: what was said is not any more", policies)
		}
	}
}

// TestInitProviderIsForTheCreationAlone changes afterwards what it has set, behind the
// managed resource's back: nobody changes it again, or takes it for said.
func TestInitProviderIsForTheCreationAlone(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	fill(t, s, name, "forProvider: {public: false}, initProvider: {versioning: true}")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	if !versioned(t, name) {
		t.Error("initProvider was not used at the creation")
	}
	if err := sky.Admin().Change(key(name), cloud.Properties{Versioning: false}); err != nil {
		t.Fatal(err)
	}
	annotate(t, s, name, "crossplane.io/reconcile-requested-at", "once")
	o := s.Await(t, bucket, s.NS, name, handled("once"))
	if versioned(t, name) {
		t.Error("initProvider was fought over")
	}
	if _, said, _ := unstructured.NestedBool(o.Object, "spec", "forProvider", "versioning"); said {
		t.Error("what initProvider says was put into forProvider")
	}
}

func TestDriftIsCorrectedOnRequestAndWithEachPoll(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	fill(t, s, name, "forProvider: {versioning: true}")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	if err := sky.Admin().Change(key(name), cloud.Properties{}); err != nil {
		t.Fatal(err)
	}
	annotate(t, s, name, "crossplane.io/reconcile-requested-at", "2026-01-01T00:00:00Z")
	s.Await(t, bucket, s.NS, name, handled("2026-01-01T00:00:00Z"))
	if !versioned(t, name) {
		t.Error("a look that was asked for corrects nothing")
	}
	annotate(t, s, name, "crossplane.io/poll-interval", "1s")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	if err := sky.Admin().Change(key(name), cloud.Properties{}); err != nil {
		t.Fatal(err)
	}
	testkit.Poll(t, "a poll has corrected the drift", func() bool { return versioned(t, name) })
}

// TestObserveOnlyResourcesAreNotChanged takes on what others have made, to show it.
func TestObserveOnlyResourcesAreNotChanged(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	if _, err := sky.Call(cloud.Request{Verb: cloud.VerbCreate, Key: key(name), Properties: cloud.Properties{Public: true}}); err != nil {
		t.Fatal(err)
	}
	there := inCloud(t, name)
	fill(t, s, name, "managementPolicies: [Observe], forProvider: {versioning: true}")
	o := s.Await(t, bucket, s.NS, name, func(o *unstructured.Unstructured) error {
		return errors.Join(isNamed(name)(o), testkit.IsReady(o))
	})
	if public, _, _ := unstructured.NestedBool(o.Object, "status", "atProvider", "public"); !public {
		t.Errorf("nothing is shown of it: %v", o.Object["status"])
	}
	if err := contains(testkit.ConditionMessage(o, "Synced"), "differs"); err != nil {
		t.Error(err)
	}
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if left := inCloud(t, name); left == nil || left.Serial != there.Serial || left.Properties.Public != there.Properties.Public || len(left.Tags) > 0 {
		t.Errorf("it was %+v, and is %+v", there, left)
	}
}

func TestRetainedResourcesStay(t *testing.T) {
	s := suite.New(t)
	n := 0
	for spec, stays := range map[string]bool{
		"deletionPolicy: Orphan":                                                                true,
		"managementPolicies: [Observe, Create, Update]":                                         true,
		"managementPolicies: [Observe, Create, Delete]":                                         false,
		"deletionPolicy: Orphan, managementPolicies: ['*']":                                     true,
		"deletionPolicy: Delete, managementPolicies: [Observe, Create, Update, LateInitialize]": true,
	} {
		n++
		name := fmt.Sprintf("b%d-%s", n, s.NS)
		fill(t, s, name, spec+", forProvider: {}")
		s.Await(t, bucket, s.NS, name, isNamed(name))
		s.Delete(t, bucket, s.NS, name)
		s.AwaitGone(t, bucket, s.NS, name)
		if left := inCloud(t, name); (left != nil) != stays {
			t.Errorf("{%s}: what is left is %+v", spec, left)
		}
	}
}

// TestResourcesWithAnothersMarkAreNeverAdopted lets another client's control plane have
// marked it, before and after it was bound.
func TestResourcesWithAnothersMarkAreNeverAdopted(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	theirs := map[string]string{"espalier-binding": "another", "espalier-owner": "Bucket.sandbox.espalier.dev/x/y@elsewhere"}
	if _, err := sky.Call(cloud.Request{Verb: cloud.VerbCreate, Key: key(name), Tags: theirs}); err != nil {
		t.Fatal(err)
	}
	fill(t, s, name, "forProvider: {versioning: true}")
	s.Await(t, bucket, s.NS, name, syncedBecause("Conflict", "carries the mark of another managed resource"))
	annotate(t, s, name, "espalier.dev/adopt", "IfUnmarked")
	annotate(t, s, name, "crossplane.io/reconcile-requested-at", "again")
	s.Await(t, bucket, s.NS, name, syncedBecause("Conflict", "carries the mark of another managed resource"))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if left := inCloud(t, name); left == nil || left.Properties.Versioning {
		t.Errorf("it was touched: %+v", left)
	}

	name = "c-" + s.NS
	fill(t, s, name, "forProvider: {}")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	if err := sky.Admin().Retag(key(name), theirs); err != nil {
		t.Fatal(err)
	}
	annotate(t, s, name, "crossplane.io/reconcile-requested-at", time.Now().String())
	s.Await(t, bucket, s.NS, name, syncedBecause("Conflict", "mark of another managed resource"))
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if inCloud(t, name) == nil {
		t.Error("what carries another's mark was deleted")
	}
	s.AwaitEvent(t, name, "ExternalResourceLeft", "another managed resource")
}
