package cloudcontrol_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func (w *world) setVersion(version string) {
	w.Helper()
	if err := unstructured.SetNestedField(w.object.Object, version, "spec", "forProvider", "Version"); err != nil {
		w.Fatal(err)
	}
}

// TestAClusterIsUpgradedOneVersionAtATime requests a version three minor versions later, and another process polls.
func TestAClusterIsUpgradedOneVersionAtATime(t *testing.T) {
	w := newWorld(t, "AWS::EKS::Cluster", map[string]any{
		"RoleArn": "arn:aws:iam::1:role/eks", "Version": "1.29", "ResourcesVpcConfig": map[string]any{"SubnetIds": []any{"subnet-1"}},
	}, hook.For("AWS::EKS::Cluster"))
	ref := w.create()
	w.setVersion("1.32")
	for _, next := range []string{"1.30", "1.31", "1.32"} {
		c, seen := w.observe(ref)
		if seen.UpToDate != external.No {
			t.Fatalf("before %s: %+v", next, seen)
		}
		op := w.begin(c, external.Update, seen)
		properties := readVersion(w, ref)
		if op.Err != nil || properties != next {
			t.Errorf("after the update, the version is %s, not %s: %+v", properties, next, op)
		}
		if want := "until 1.32"; next != "1.32" && (!strings.Contains(seen.Diff, want) || !strings.Contains(op.State, "Version "+next)) {
			t.Errorf("the difference is %q, and the state %q", seen.Diff, op.State)
		}
		if again, err := w.connect().Poll(w.Context(), w.object, op); err != nil || next != "1.32" && !strings.Contains(again.State, "Version "+next) {
			t.Errorf("a poll of another process: %+v, %v", again, err)
		}
	}
	if _, seen := w.observe(ref); seen.UpToDate != external.Yes {
		t.Errorf("after all: %+v", seen)
	}
	if n := w.cloud.Calls("UpdateResource"); n != 3 {
		t.Errorf("%d updates", n)
	}
	w.setVersion("1.31")
	c, seen := w.observe(ref)
	if _, err := c.Prepare(w.object, external.Update, seen); err == nil || !strings.Contains(err.Error(), "from 1.32 back to 1.31") {
		t.Errorf("a change back: %v", err)
	}
	// What else differs is changed nevertheless.
	if err := unstructured.SetNestedField(w.object.Object, true, "spec", "forProvider", "DeletionProtection"); err != nil {
		t.Fatal(err)
	}
	if c, seen = w.observe(ref); w.begin(c, external.Update, seen).Err != nil || readVersion(w, ref) != "1.32" {
		t.Errorf("the version is %s", readVersion(w, ref))
	}
}

func readVersion(w *world, ref external.Ref) string {
	_, seen := w.observe(ref)
	version, _ := seen.AtProvider["Version"].(string)
	return version
}

// TestDetailsThatTakeARequestAreReadForASecret has a hook that makes a request for connection details.
func TestDetailsThatTakeARequestAreReadForASecret(t *testing.T) {
	reads, failure := 0, error(nil)
	w := newWorld(t, "AWS::EC2::VPC", map[string]any{"CidrBlock": "10.0.0.0/16"}, hook.Hooks{
		Connection: func(hook.Target) map[string][]byte { return map[string][]byte{"arn": []byte("a")} },
		ReadConnection: func(context.Context, aws.Config, hook.Target) (map[string][]byte, error) {
			reads++
			return map[string][]byte{"brokers": []byte("b")}, failure
		},
	})
	ref := w.create()
	if _, seen := w.observe(ref); reads > 0 || string(seen.Connection["arn"]) != "a" || seen.Connection["brokers"] != nil {
		t.Errorf("without a Secret, %d reads: %q", reads, seen.Connection)
	}
	if err := unstructured.SetNestedField(w.object.Object, "conn", "spec", "writeConnectionSecretToRef", "name"); err != nil {
		t.Fatal(err)
	}
	if _, seen := w.observe(ref); reads != 1 || string(seen.Connection["brokers"]) != "b" {
		t.Errorf("with a Secret, %d reads: %q", reads, seen.Connection)
	}
	failure = errors.New("denied")
	if _, err := w.connect().Observe(w.Context(), w.object, ref); err == nil || !strings.Contains(err.Error(), "read the connection details: denied") {
		t.Errorf("got %v", err)
	}
}
