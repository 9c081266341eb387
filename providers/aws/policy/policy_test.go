package policy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/hook/schema"
	"github.com/espalier-dev/espalier/providers/aws/policy"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

func typesOf(t *testing.T, names ...string) []*resourcetype.Type {
	t.Helper()
	var out []*resourcetype.Type
	for _, name := range names {
		found, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found)
	}
	return out
}

func TestATypeWithAHandlerNeedsNoCloudControl(t *testing.T) {
	for _, d := range policy.For(typesOf(t, schema.Names()...)).Documents {
		if text := d.JSON(); strings.Contains(text, "cloudformation:") || !strings.Contains(text, "sts:GetCallerIdentity") || !strings.Contains(text, "iam:CreateAccessKey") {
			t.Error(text)
		}
	}
}

// TestThePolicyOfACluster compares with testdata/eks.json; UPDATE_GOLDEN=1 writes it.
func TestThePolicyOfACluster(t *testing.T) {
	types := typesOf(t, "AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EKS::Cluster", "AWS::IAM::Role", "AWS::S3::Bucket")
	got := policy.For(types)
	slices.Reverse(types)
	if diff := cmp.Diff(got, policy.For(append(types, types[0]))); diff != "" {
		t.Errorf("the order of types matters: %s", diff)
	}
	var text strings.Builder
	for _, d := range got.Documents {
		text.WriteString(d.JSON())
	}
	for _, note := range got.Notes {
		text.WriteString("# " + note + "\n")
	}
	golden := filepath.Join("testdata", "eks.json")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentsAreWithinTheLimitForAllTypes(t *testing.T) {
	got := policy.For(typesOf(t, catalog.Names()...))
	actions := map[string]bool{}
	for i, d := range got.Documents {
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > policy.MaxSize {
			t.Errorf("document %d has %d characters", i, len(raw))
		}
		for _, s := range d.Statement {
			for _, a := range s.Action {
				if actions[strings.ToLower(a)] {
					t.Errorf("%s is there twice", a)
				}
				actions[strings.ToLower(a)] = true
			}
		}
	}
	if len(got.Documents) < 2 || !strings.Contains(strings.Join(got.Notes, "\n"), fmt.Sprintf("split into %d documents", len(got.Documents))) {
		t.Errorf("got %d documents with notes %q", len(got.Documents), got.Notes)
	}
	t.Logf("%d actions in %d documents; notes:\n%s", len(actions), len(got.Documents), strings.Join(got.Notes, "\n"))
}

func TestActionsThatOthersIncludeAreLeftOut(t *testing.T) {
	one := &resourcetype.Type{Name: "AWS::Test::One", Tagging: resourcetype.Tagging{Permissions: []string{"ec2:CreateTags"}}, Handlers: map[resourcetype.Verb]resourcetype.Handler{
		resourcetype.Create: {Permissions: []string{"s3:GetObject", "s3:getobject", "ec2:Describe*", "ec2:DescribeVpcs", " kms:Decrypt,kms:Encrypt ", "not an action!"}},
		resourcetype.Read:   {Permissions: []string{"s3:GetObject", "ec2:DescribeSubnets"}},
	}}
	got := policy.For([]*resourcetype.Type{one})
	want := []string{"ec2:CreateTags", "ec2:Describe*", "kms:Decrypt", "kms:Encrypt", "s3:GetObject"}
	actions := slices.DeleteFunc(got.Documents[0].Statement[0].Action, func(a string) bool {
		return strings.HasPrefix(a, "cloudformation:") || strings.HasPrefix(a, "sts:") || strings.HasPrefix(a, "tag:")
	})
	if diff := cmp.Diff(want, actions); diff != "" {
		t.Error(diff)
	}
	if len(got.Notes) != 3 || !strings.Contains(got.Notes[0], "AWS::Test::One") {
		t.Errorf("got notes %q", got.Notes)
	}
}
