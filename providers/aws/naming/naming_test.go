package naming_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/naming"
)

func TestNamesOfKinds(t *testing.T) {
	cases := map[string]struct {
		typeName      string
		clusterScoped bool
		want          string
	}{
		"namespaced":                  {"AWS::EC2::VPC", false, "VPC vpcs.ec2.aws.espalier.dev"},
		"cluster-scoped":              {"AWS::EC2::VPC", true, "ClusterVPC clustervpcs.ec2.aws.espalier.dev"},
		"a cluster in a cluster":      {"AWS::EKS::Cluster", true, "ClusterCluster clusterclusters.eks.aws.espalier.dev"},
		"a word that ends in y":       {"AWS::IAM::ManagedPolicy", false, "ManagedPolicy managedpolicies.iam.aws.espalier.dev"},
		"a word that ends in a vowel": {"AWS::EC2::NatGateway", false, "NatGateway natgateways.ec2.aws.espalier.dev"},
	}
	for name, tc := range cases {
		kind, err := naming.Of(tc.typeName, tc.clusterScoped)
		if got := kind.Kind + " " + kind.CRDName(); err != nil || got != tc.want {
			t.Errorf("%s: want %s, got %s, %v", name, tc.want, got, err)
		}
		if got, ok := naming.Find([]string{"AWS::S3::Bucket", tc.typeName}, kind.GroupVersionKind().GroupKind()); !ok || got != kind {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

func TestOtherNamesHaveNoKind(t *testing.T) {
	for _, name := range []string{"", "VPC", "Alexa::ASK::Skill", "AWS::EC2", "AWS::EC2::VPC::MODULE", "AWS::EC2::", "AWS::EC2::*"} {
		if kind, err := naming.Of(name, false); err == nil || !strings.Contains(err.Error(), "AWS::EC2::VPC") {
			t.Errorf("%q: got %v, %v", name, kind, err)
		}
	}
	for _, kind := range []schema.GroupKind{
		{Group: "ec2.aws.espalier.dev", Kind: "Subnet"}, {Group: "aws.espalier.dev", Kind: "VPC"},
		{Group: "s3.aws.espalier.dev", Kind: "VPC"}, {Group: "ec2.example.org", Kind: "VPC"},
	} {
		if found, ok := naming.Find([]string{"AWS::EC2::VPC"}, kind); ok {
			t.Errorf("%s: found %v", kind, found)
		}
	}
}

func TestCollisionsAreErrors(t *testing.T) {
	cases := map[string][]string{
		"with a cluster-scoped kind": {"AWS::A::Endpoint", "AWS::A::ClusterEndpoint"},
		"with the kind of a list":    {"AWS::A::Prefix", "AWS::A::PrefixList"},
		"of cases":                   {"AWS::A::Vpc", "AWS::A::VPC"},
		"of plurals":                 {"AWS::A::Permission", "AWS::A::Permissions"},
	}
	for name, types := range cases {
		if err := naming.Check(types); err == nil || !strings.Contains(err.Error(), types[1]) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := naming.Check([]string{"AWS::A::VPC", "AWS::B::VPC"}); err != nil {
		t.Error(err)
	}
}
