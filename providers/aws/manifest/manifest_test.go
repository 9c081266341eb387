package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
	"github.com/espalier-dev/espalier/providers/aws/model"
)

func resource(t *testing.T, typeName, identifier, properties string) manifest.Resource {
	t.Helper()
	typ, err := catalog.Get(typeName)
	if err != nil {
		t.Fatal(err)
	}
	read, err := model.Decode([]byte(properties))
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Resource{Type: typ, Identifier: identifier, Properties: read}
}

func text(t *testing.T, r manifest.Result) string {
	t.Helper()
	var out []string
	for _, o := range r.Objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return strings.Join(out, "---\n")
}

func network(t *testing.T) []manifest.Resource {
	return []manifest.Resource{
		resource(t, "AWS::Lambda::Function", "Worker_1", `{"FunctionName": "Worker_1", "Role": "arn:aws:iam::123456789012:role/teams/workers", "VpcConfig": {"SubnetIds": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}, "Arn": "arn:aws:lambda:x"}`),
		resource(t, "AWS::EC2::Subnet", "subnet-1", `{"SubnetId": "subnet-1", "VpcId": "vpc-1", "CidrBlock": "10.0.1.0/24", "Tags": [{"Key": "Name", "Value": "Private (a)"}]}`),
		resource(t, "AWS::EC2::Subnet", "subnet-2", `{"SubnetId": "subnet-2", "VpcId": "vpc-1", "CidrBlock": "10.0.2.0/24", "Tags": [{"Key": "Name", "Value": "Private (a)"}]}`),
		resource(t, "AWS::EC2::VPC", "vpc-1", `{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16", "EnableDnsSupport": true}`),
		resource(t, "AWS::IAM::Role", "workers", `{"RoleName": "workers", "Path": "/teams/", "Arn": "arn:aws:iam::123456789012:role/teams/workers", "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}}`),
	}
}

func TestPropertiesBecomeReferences(t *testing.T) {
	got, err := manifest.For(network(t), manifest.Options{Namespace: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: iam.aws.espalier.dev/v1alpha1
kind: Role
metadata:
  annotations:
    crossplane.io/external-name: workers
  name: workers
  namespace: prod
spec:
  forProvider:
    AssumeRolePolicyDocument:
      Statement: []
      Version: "2012-10-17"
    Path: /teams/
    RoleName: workers
  managementPolicies:
  - Observe
---
apiVersion: ec2.aws.espalier.dev/v1alpha1
kind: VPC
metadata:
  annotations:
    crossplane.io/external-name: vpc-1
  name: vpc-1
  namespace: prod
spec:
  forProvider:
    CidrBlock: 10.0.0.0/16
    EnableDnsSupport: true
  managementPolicies:
  - Observe
---
apiVersion: ec2.aws.espalier.dev/v1alpha1
kind: Subnet
metadata:
  annotations:
    crossplane.io/external-name: subnet-1
  name: private-a-92332cf9
  namespace: prod
spec:
  forProvider:
    CidrBlock: 10.0.1.0/24
    Tags:
    - Key: Name
      Value: Private (a)
    VpcIdRef:
      name: vpc-1
  managementPolicies:
  - Observe
---
apiVersion: ec2.aws.espalier.dev/v1alpha1
kind: Subnet
metadata:
  annotations:
    crossplane.io/external-name: subnet-2
  name: private-a-263b6ac0
  namespace: prod
spec:
  forProvider:
    CidrBlock: 10.0.2.0/24
    Tags:
    - Key: Name
      Value: Private (a)
    VpcIdRef:
      name: vpc-1
  managementPolicies:
  - Observe
---
apiVersion: lambda.aws.espalier.dev/v1alpha1
kind: Function
metadata:
  annotations:
    crossplane.io/external-name: Worker_1
  name: worker-1
  namespace: prod
spec:
  forProvider:
    FunctionName: Worker_1
    RoleRef:
      name: workers
    VpcConfig:
      SecurityGroupIds:
      - sg-1
      SubnetIdsRefs:
      - name: private-a-92332cf9
      - name: private-a-263b6ac0
  managementPolicies:
  - Observe
`
	if diff := cmp.Diff(want, text(t, got)); diff != "" || len(got.Notes) > 0 {
		t.Errorf("notes %v, (-want +got):\n%s", got.Notes, diff)
	}
}

func TestWithFullPolicies(t *testing.T) {
	got, err := manifest.For([]manifest.Resource{resource(t, "AWS::EC2::VPC", "vpc-1", `{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16"}`)},
		manifest.Options{Full: true, ClusterScoped: true, Namespace: "ignored", Name: "main", ConfigKind: "ProviderConfig", Config: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: ec2.aws.espalier.dev/v1alpha1
kind: ClusterVPC
metadata:
  annotations:
    crossplane.io/external-name: vpc-1
  name: main
spec:
  forProvider:
    CidrBlock: 10.0.0.0/16
  managementPolicies:
  - '*'
  providerConfigRef:
    kind: ProviderConfig
    name: prod
`
	if diff := cmp.Diff(want, text(t, got)); diff != "" || len(got.Notes) > 0 {
		t.Errorf("notes %v, (-want +got):\n%s", got.Notes, diff)
	}
}

func TestWhatAWSDoesNotReturnIsNoted(t *testing.T) {
	r := resource(t, "AWS::Lambda::Function", "f", `{"FunctionName": "f", "Role": "arn:aws:iam::123456789012:role/f"}`)
	got, err := manifest.For([]manifest.Resource{r}, manifest.Options{Full: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Notes) != 1 || got.Notes[0] != "Function f: spec.forProvider.Code is required, and AWS does not return it; add it" {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestTheMarkOfAnotherManagedResourceIsNoted(t *testing.T) {
	r := resource(t, "AWS::EC2::VPC", "vpc-1", `{"CidrBlock": "10.0.0.0/16", "Tags": [{"Key": "espalier.dev/owner", "Value": "VPC.ec2.aws.espalier.dev/default/main@1"}]}`)
	got, err := manifest.For([]manifest.Resource{r}, manifest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "VPC vpc-1: it carries the mark of another managed resource, VPC.ec2.aws.espalier.dev/default/main@1.") {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestReferencesFormNoCycle(t *testing.T) {
	group := func(id, other string) manifest.Resource {
		return resource(t, "AWS::EC2::SecurityGroup", id, `{"GroupId": "`+id+`", "GroupDescription": "d", "SecurityGroupIngress": [{"IpProtocol": "tcp", "SourceSecurityGroupId": "`+other+`"}]}`)
	}
	got, err := manifest.For([]manifest.Resource{group("sg-1", "sg-2"), group("sg-2", "sg-1"), group("sg-3", "sg-3")}, manifest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var plain, refs []string
	for _, o := range got.Objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "SourceSecurityGroupIdRef") {
			refs = append(refs, o.GetName())
		} else {
			plain = append(plain, o.GetName())
		}
	}
	if diff := cmp.Diff([][]string{{"sg-1"}, {"sg-2", "sg-3"}}, [][]string{refs, plain}); diff != "" {
		t.Error(diff)
	}
}

func TestTargets(t *testing.T) {
	var got []string
	for _, target := range manifest.Targets(network(t)[0]) {
		got = append(got, target.String()+" by "+strings.Join(target.Identifiers(), ", "))
	}
	want := []string{
		"AWS::IAM::Role arn:aws:iam::123456789012:role/teams/workers by arn:aws:iam::123456789012:role/teams/workers, workers, role/teams/workers",
		"AWS::EC2::SecurityGroup sg-1 by sg-1",
		"AWS::EC2::Subnet subnet-1 by subnet-1",
		"AWS::EC2::Subnet subnet-2 by subnet-2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 100)
	cases := map[string]string{"vpc-1": "vpc-1", "A B/c": "a-b-c", "арн": "resource-f4d20ba3", long: "x"}
	for identifier, want := range cases {
		got, err := manifest.For([]manifest.Resource{resource(t, "AWS::EC2::VPC", identifier, `{}`)}, manifest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		name := got.Objects[0].GetName()
		if identifier == long {
			if len(name) != 63 || !strings.HasPrefix(name, "aaaa") {
				t.Errorf("a long identifier: %s", name)
			}
		} else if name != want {
			t.Errorf("%s: got %s", identifier, name)
		}
	}
}
