package providers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

func is(reason string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if got := testkit.ConditionReason(o, "Synced"); got != reason {
			return fmt.Errorf("Synced because of %s: %s", got, testkit.ConditionMessage(o, "Synced"))
		}
		return nil
	}
}

// inCloud is a test's bucket as the cloud has it; nil if there is none.
func inCloud(t *testing.T, name string) *cloud.Resource {
	t.Helper()
	r, err := sky.Get(cloud.Key{Type: cloud.TypeBucket, Scope: "main", ID: name})
	if errors.Is(err, cloud.NotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

// deleteBucket deletes a bucket, and checks that it is deleted in the cloud as well.
func deleteBucket(t *testing.T, s suite.Suite, name string) {
	t.Helper()
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	if left := inCloud(t, name); left != nil {
		t.Errorf("the bucket is left in the cloud: %+v", left)
	}
}

// bindings lists what is left of a test's managed resources.
func bindings(t *testing.T, s suite.Suite) []string {
	t.Helper()
	list := s.List(t, binding, "", "")
	var out []string
	for i := range list {
		if ns, _, _ := unstructured.NestedString(list[i].Object, "spec", "owner", "namespace"); ns == s.NS {
			out = append(out, list[i].GetName())
		}
	}
	return out
}

func TestABucketIsCreatedUpdatedAndDeleted(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	text := "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: " + name + ", namespace: $NS}\nspec: {forProvider: {versioning: %t}}\n"
	s.Apply(t, fmt.Sprintf(text, false))
	o := s.Await(t, bucket, s.NS, name, func(o *unstructured.Unstructured) error {
		if err := is("ReconcileSuccess")(o); err != nil {
			return err
		}
		return testkit.IsReady(o)
	})
	if got := o.GetAnnotations()["crossplane.io/external-name"]; got != name {
		t.Errorf("the external name is %q", got)
	}
	if url, _, _ := unstructured.NestedString(o.Object, "status", "atProvider", "url"); url == "" {
		t.Error("nothing is reported of the bucket's URL")
	}
	there := inCloud(t, name)
	if there == nil || there.Tags["espalier-owner"] == "" || there.Tags["espalier-binding"] == "" {
		t.Fatalf("in the cloud there is %+v", there)
	}

	s.Apply(t, fmt.Sprintf(text, true))
	s.Await(t, bucket, s.NS, name, func(o *unstructured.Unstructured) error {
		if on, _, _ := unstructured.NestedBool(o.Object, "status", "atProvider", "versioning"); !on {
			return errors.New("isn't versioned")
		}
		return is("ReconcileSuccess")(o)
	})
	if again := inCloud(t, name); again == nil || again.Serial != there.Serial {
		t.Errorf("another bucket was made: %+v", again)
	}

	deleteBucket(t, s, name)
	s.AwaitList(t, binding, "", "", func(map[string]*unstructured.Unstructured) error {
		if left := bindings(t, s); len(left) > 0 {
			return fmt.Errorf("bindings are left: %v", left)
		}
		return nil
	})
}

// TestASecondManagedResourceWaitsForAReservedName creates a second managed resource with the same
// external name, in another namespace. It gets the name when the first one is deleted.
func TestASecondManagedResourceWaitsForAReservedName(t *testing.T) {
	s, other := suite.New(t), ""
	other = testkit.Namespace(t, s.Config)
	name := "twin-" + s.NS
	text := "apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: " + name + ", namespace: %s}\nspec: {forProvider: {}}\n"
	s.Apply(t, fmt.Sprintf(text, s.NS))
	s.Await(t, bucket, s.NS, name, is("ReconcileSuccess"))
	s.Apply(t, fmt.Sprintf(text, other))
	s.Await(t, bucket, other, name, func(o *unstructured.Unstructured) error {
		if err := is("NameReserved")(o); err != nil {
			return err
		}
		if message := testkit.ConditionMessage(o, "Synced"); message == "" {
			return errors.New("the message does not name the owner")
		}
		return nil
	})
	first := inCloud(t, name)
	s.Delete(t, bucket, s.NS, name)
	s.Await(t, bucket, other, name, is("ReconcileSuccess"))
	if second := inCloud(t, name); second == nil || second.Serial == first.Serial {
		t.Errorf("the second managed resource adopted the bucket that was being deleted: %+v", second)
	}
	s.Delete(t, bucket, other, name)
	s.AwaitGone(t, bucket, other, name)
}

// TestABucketIsRecreatedUnderItsName deletes a bucket and recreates it at once, ten times: each
// is a new external resource. An orphaned one is adopted, since its mark names the same managed
// resource.
func TestABucketIsRecreatedUnderItsName(t *testing.T) {
	s := suite.New(t)
	name := "b-" + s.NS
	serials := map[int64]int{}
	for i := range 10 {
		fill(t, s, name, "forProvider: {}")
		s.Await(t, bucket, s.NS, name, isNamed(name))
		serials[inCloud(t, name).Serial] = i
		s.Delete(t, bucket, s.NS, name)
		s.AwaitGone(t, bucket, s.NS, name)
	}
	if len(serials) != 10 {
		t.Errorf("ten creations made %d buckets: %v", len(serials), serials)
	}
	fill(t, s, name, "deletionPolicy: Orphan, forProvider: {}")
	s.Await(t, bucket, s.NS, name, isNamed(name))
	left := inCloud(t, name)
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
	fill(t, s, name, "forProvider: {}")
	s.Await(t, bucket, s.NS, name, isNamed(name)) // it carries the mark of this very name
	if now := inCloud(t, name); now.Serial != left.Serial {
		t.Errorf("the orphaned bucket was recreated: %+v", now)
	}
	s.Delete(t, bucket, s.NS, name)
	s.AwaitGone(t, bucket, s.NS, name)
}

func contains(text, word string) error {
	if !strings.Contains(text, word) {
		return fmt.Errorf("doesn't say %q: %s", word, text)
	}
	return nil
}
