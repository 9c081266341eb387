package activation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/packages/activation"
)

func TestWhatIsActivated(t *testing.T) {
	bucket := activation.Definition{Name: "buckets.s3.example.org", Kind: schema.GroupKind{Group: "s3.example.org", Kind: "Bucket"}}
	object := activation.Definition{Name: "objects.s3.example.org", Kind: schema.GroupKind{Group: "s3.example.org", Kind: "Object"}}
	vpc := activation.Definition{Name: "vpcs.ec2.example.org", Kind: schema.GroupKind{Group: "ec2.example.org", Kind: "VPC"}}
	active := bucket
	active.Active = true
	all := []activation.Definition{vpc, object, bucket}
	policy := func(name string, patterns ...string) activation.Policy {
		return activation.Policy{Name: name, Patterns: patterns}
	}
	for name, tc := range map[string]struct {
		reason      string
		definitions []activation.Definition
		policies    []activation.Policy
		composed    []schema.GroupKind
		want        activation.Plan
	}{
		"no policy": {"a kind costs memory of the API server", all, nil, nil, activation.Plan{Statuses: map[string]activation.Status{}}},
		"a name": {"", all, []activation.Policy{policy("a", bucket.Name)}, nil,
			activation.Plan{Activate: []string{bucket.Name}, Statuses: map[string]activation.Status{"a": {Activated: []string{bucket.Name}}}}},
		"patterns of two policies": {"they add up", all, []activation.Policy{policy("a", "*.s3.example.org"), policy("b", "v*", "buckets.*")}, nil,
			activation.Plan{Activate: []string{bucket.Name, object.Name, vpc.Name}, Statuses: map[string]activation.Status{
				"a": {Activated: []string{bucket.Name, object.Name}}, "b": {Activated: []string{bucket.Name, vpc.Name}}}}},
		"a composed kind": {"the first definition that composes it activates it", all, nil, []schema.GroupKind{vpc.Kind, {Group: "apps", Kind: "Deployment"}},
			activation.Plan{Activate: []string{vpc.Name}, Statuses: map[string]activation.Status{}}},
		"an active one": {"it stays so, and belongs to the policies that match it", []activation.Definition{active}, []activation.Policy{policy("a", "*")}, nil,
			activation.Plan{Statuses: map[string]activation.Status{"a": {Activated: []string{bucket.Name}}}}},
		"nothing wants an active one": {"its objects would be lost", []activation.Definition{active}, nil, nil, activation.Plan{Statuses: map[string]activation.Status{}}},
		"a malformed pattern": {"the others still count", all, []activation.Policy{policy("a", "[", vpc.Name)}, nil,
			activation.Plan{Activate: []string{vpc.Name}, Statuses: map[string]activation.Status{
				"a": {Activated: []string{vpc.Name}, Problem: `spec.activate has malformed patterns: "["`}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, activation.Compute(tc.definitions, tc.policies, tc.composed)); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
