package aws

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// dependency is something of others that a resource cannot be deleted with.
type dependency struct {
	typ    string
	create input
	// block creates it: ${id} is the resource, ${made} the text at the path of the first call's answer. unblock removes it.
	block, unblock []awscloud.NativeCall
	made           string
	// says is how AWS refuses the deletion.
	says string
}

var dependencies = map[string]dependency{
	"a VPC with a subnet": {
		typ: vpcType, create: input{"CidrBlock": "10.70.0.0/16"}, made: "subnet.subnetId", says: "has dependencies and cannot be deleted",
		block:   []awscloud.NativeCall{{Call: "ec2 CreateSubnet", Input: input{"VpcId": "${id}", "CidrBlock": "10.70.1.0/24"}}},
		unblock: []awscloud.NativeCall{{Call: "ec2 DeleteSubnet", Input: input{"SubnetId": "${made}"}}},
	},
	"a subnet with a network interface": {
		typ: subnetType, create: input{"VpcId": "${vpc}", "CidrBlock": "10.60.2.0/24"}, made: "networkInterface.networkInterfaceId", says: "has dependencies and cannot be deleted",
		block:   []awscloud.NativeCall{{Call: "ec2 CreateNetworkInterface", Input: input{"SubnetId": "${id}"}}},
		unblock: []awscloud.NativeCall{{Call: "ec2 DeleteNetworkInterface", Input: input{"NetworkInterfaceId": "${made}"}}},
	},
	"a security group that another one names": {
		typ: "AWS::EC2::SecurityGroup", create: input{"VpcId": "${vpc}", "GroupDescription": "named by another", "GroupName": "named"}, made: "groupId", says: "has a dependent object",
		block: []awscloud.NativeCall{
			{Call: "ec2 CreateSecurityGroup", Input: input{"VpcId": "${vpc}", "GroupName": "other", "GroupDescription": "names another"}},
			{Call: "ec2 AuthorizeSecurityGroupIngress", Input: input{"GroupId": "${made}", "IpPermissions.1.IpProtocol": "tcp", "IpPermissions.1.FromPort": "80", "IpPermissions.1.ToPort": "80", "IpPermissions.1.Groups.1.GroupId": "${id}"}},
		},
		unblock: []awscloud.NativeCall{{Call: "ec2 DeleteSecurityGroup", Input: input{"GroupId": "${made}"}}},
	},
	"an attached internet gateway": {
		typ: "AWS::EC2::InternetGateway", create: input{}, says: "has dependencies and cannot be deleted",
		block:   []awscloud.NativeCall{{Call: "ec2 AttachInternetGateway", Input: input{"InternetGatewayId": "${id}", "VpcId": "${vpc}"}}},
		unblock: []awscloud.NativeCall{{Call: "ec2 DetachInternetGateway", Input: input{"InternetGatewayId": "${id}", "VpcId": "${vpc}"}}},
	},
	"a role in an instance profile": {
		typ: roleType, create: input{"RoleName": "blocked-in-profile", "AssumeRolePolicyDocument": trustPolicy}, says: "must remove roles from instance profile first",
		block: []awscloud.NativeCall{
			{Call: "iam CreateInstanceProfile", Input: input{"InstanceProfileName": "blocking-profile"}},
			{Call: "iam AddRoleToInstanceProfile", Input: input{"InstanceProfileName": "blocking-profile", "RoleName": "${id}"}},
		},
		unblock: []awscloud.NativeCall{{Call: "iam RemoveRoleFromInstanceProfile", Input: input{"InstanceProfileName": "blocking-profile", "RoleName": "${id}"}}},
	},
	"a role with a policy of others": {
		typ: roleType, create: input{"RoleName": "blocked-by-policy", "AssumeRolePolicyDocument": trustPolicy}, made: "CreatePolicyResult.Policy.Arn", says: "must detach all policies first",
		block: []awscloud.NativeCall{
			{Call: "iam CreatePolicy", Input: input{"PolicyName": "blocking-policy", "PolicyDocument": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:ListBucket","Resource":"*"}]}`}},
			{Call: "iam AttachRolePolicy", Input: input{"RoleName": "${id}", "PolicyArn": "${made}"}},
		},
		unblock: []awscloud.NativeCall{{Call: "iam DetachRolePolicy", Input: input{"RoleName": "${id}", "PolicyArn": "${made}"}}},
	},
	"a bucket with an object": {
		typ: "AWS::S3::Bucket", create: input{"BucketName": "blocked-bucket"}, says: "not empty",
		block:   []awscloud.NativeCall{{Call: "s3 PUT /${id}/object", Body: "x"}},
		unblock: []awscloud.NativeCall{{Call: "s3 DELETE /${id}/object"}},
	},
}

// TestDependenciesBlockDeletions deletes resources that others use: the object says why AWS refuses it, the resource stays, and
// the deletion continues by itself when nothing uses the resource any more.
func TestDependenciesBlockDeletions(t *testing.T) {
	for name, d := range dependencies {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			known := map[string]string{}
			resolve := func(name, _ string) string {
				if name == "vpc" && known[name] == "" {
					known[name] = foreigners[0].create(t)
				}
				return known[name]
			}
			create(t, s, d.typ, "own", awscloud.Resolve(d.create, resolve))
			id := identifier(awaitSynced(t, s, d.typ, "own"))
			for i, call := range d.block {
				path := map[bool]string{true: d.made}[i == 0]
				made, err := cloud.Call(t.Context(), call, id, resolve, path)
				if err != nil || path != "" && made == "" {
					t.Fatalf("%q, %v", made, err)
				}
				if path != "" {
					known["made"] = made
				}
			}
			s.Delete(t, kindOf(t, d.typ), s.NS, "own")
			s.Await(t, kindOf(t, d.typ), s.NS, "own", suite.All(func(o *unstructured.Unstructured) error {
				if message := testkit.ConditionMessage(o, resource.Synced); !strings.Contains(message, d.says) {
					return fmt.Errorf("does not say what blocks its deletion: %s", message)
				}
				return nil
			}))
			if native(t, d.typ, id) == nil {
				t.Fatalf("%s %s is gone", d.typ, id)
			}
			for _, call := range d.unblock {
				if _, err := cloud.Call(t.Context(), call, id, resolve, ""); err != nil {
					t.Fatal(err)
				}
			}
			s.AwaitGone(t, kindOf(t, d.typ), s.NS, "own")
			checkGone(t, d.typ, id)
		})
	}
}

// TestBlockersNameWhatAWSRefuses deletes an instance whose VPC has a subnet of others: espalier blockers shows the VPC, and why
// AWS refuses its deletion.
func TestBlockersNameWhatAWSRefuses(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, suite.Graph("Net", "", `
    - id: vpc
      template: {apiVersion: ec2.aws.espalier.dev/v1alpha1, kind: VPC, metadata: {name: "${schema.metadata.name}"}, spec: {forProvider: {CidrBlock: 10.71.0.0/16}}}
`))
	s.AwaitDefinitions(t, "net")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Net\nmetadata: {name: main, namespace: $NS}\n")
	id := identifier(awaitSynced(t, s, vpcType, "main"))
	subnet, err := cloud.Call(t.Context(), awscloud.NativeCall{Call: "ec2 CreateSubnet", Input: input{"VpcId": "${id}", "CidrBlock": "10.71.1.0/24"}}, id, nil, "subnet.subnetId")
	if err != nil {
		t.Fatal(err)
	}
	s.Delete(t, s.Kind("Net"), s.NS, "main")
	const says = "has dependencies and cannot be deleted"
	s.Await(t, s.Kind("Net"), s.NS, "main", suite.All(func(o *unstructured.Unstructured) error {
		if blockers := fmt.Sprint(o.Object["status"].(map[string]any)["deletion"]); !strings.Contains(blockers, says) {
			return fmt.Errorf("the deletion is not blocked by the VPC: %s", blockers)
		}
		return nil
	}))

	var out, errs bytes.Buffer
	code := cli.Main(t.Context(), []string{"blockers", "net." + s.Group, "main", "-n", s.NS, "--kubeconfig", testkit.Kubeconfig(t, s.Config)}, &out, &errs)
	for _, text := range []string{"VPC " + s.NS + "/main", id, says, "in Net " + s.NS + "/main"} {
		if code != 3 || !strings.Contains(out.String(), text) {
			t.Errorf("espalier blockers exits with %d and does not say %q:\n%s%s", code, text, out.String(), errs.String())
		}
	}
	if _, err := cloud.Call(t.Context(), awscloud.NativeCall{Call: "ec2 DeleteSubnet", Input: input{"SubnetId": "${id}"}}, subnet, nil, ""); err != nil {
		t.Fatal(err)
	}
	s.AwaitGone(t, s.Kind("Net"), s.NS, "main")
	checkGone(t, vpcType, id)
}
