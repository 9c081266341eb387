package kinds

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/aws/naming"
)

// install creates the CustomResourceDefinition of a type.
func install(t *testing.T, c *testkit.Cluster, name string, clusterScoped bool) schema.GroupVersionKind {
	t.Helper()
	definition, err := define(name, clusterScoped)
	if err != nil {
		t.Fatal(err)
	}
	definition.APIVersion, definition.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	raw, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(raw))
	kind, err := naming.Of(name, clusterScoped)
	if err != nil {
		t.Fatal(err)
	}
	return kind.GroupVersionKind()
}

// object returns an object of a kind with a spec.
func object(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

type values = map[string]any

// TestDesiredState creates objects that the schemas of their types allow and forbid.
func TestDesiredState(t *testing.T) {
	c := testkit.NewCluster(t, testkit.ExclusiveServer(t))
	observe := values{"managementPolicies": []any{"Observe"}}
	cases := map[string]struct {
		typeName string
		spec     values
		// refused is a part of the error, empty if the object is accepted.
		refused string
	}{
		"a required property":              {"AWS::EC2::Subnet", values{"forProvider": values{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/24"}}, ""},
		"its reference":                    {"AWS::EC2::Subnet", values{"forProvider": values{"VpcIdRef": values{"name": "vpc"}, "CidrBlock": "10.0.0.0/24"}}, ""},
		"its selector":                     {"AWS::EC2::Subnet", values{"forProvider": values{"VpcIdSelector": values{"matchLabels": values{"a": "b"}}, "CidrBlock": "10.0.0.0/24"}}, ""},
		"its initial value":                {"AWS::EC2::Subnet", values{"forProvider": values{"CidrBlock": "10.0.0.0/24"}, "initProvider": values{"VpcId": "vpc-1"}}, ""},
		"none of them":                     {"AWS::EC2::Subnet", values{"forProvider": values{"CidrBlock": "10.0.0.0/24"}}, "spec.forProvider.VpcId is required: set VpcId, VpcIdRef or VpcIdSelector"},
		"none, and only observed":          {"AWS::EC2::Subnet", values{"forProvider": values{}}, ""},
		"neither of two":                   {"AWS::EC2::Subnet", values{"forProvider": values{"VpcId": "vpc-1"}}, "spec.forProvider needs one of these: CidrBlock; Ipv4IpamPoolId (or Ipv4IpamPoolIdRef"},
		"a required document as an object": {"AWS::IAM::Role", values{"forProvider": values{"AssumeRolePolicyDocument": values{"Version": "2012-10-17"}}}, ""},
		"a required document as a string":  {"AWS::IAM::Role", values{"forProvider": values{"AssumeRolePolicyDocument": "{}"}}, ""},
		"no required document":             {"AWS::IAM::Role", values{"forProvider": values{}}, "spec"},
		"no document, and only observed":   {"AWS::IAM::Role", values{"forProvider": values{}}, ""},
		"a value that is not allowed":      {"AWS::EC2::VPC", values{"forProvider": values{"CidrBlock": "10.0.0.0/16", "InstanceTenancy": "mine"}}, "InstanceTenancy"},
		"a tag without a value":            {"AWS::EC2::VPC", values{"forProvider": values{"CidrBlock": "10.0.0.0/16", "Tags": []any{values{"Key": "a"}}}}, "Tags[0].Value"},
		"a tag twice": {"AWS::EC2::VPC", values{"forProvider": values{"CidrBlock": "10.0.0.0/16", "Tags": []any{
			values{"Key": "a", "Value": "1"}, values{"Key": "a", "Value": "2"}}}}, "duplicate entries"},
		"a password from a Secret": {"AWS::RDS::DBInstance", values{"forProvider": values{"MasterUserPasswordSecretRef": values{"name": "s", "key": "k"}}}, ""},
		"a Secret without a key":   {"AWS::RDS::DBInstance", values{"forProvider": values{"MasterUserPasswordSecretRef": values{"name": "s"}}}, "MasterUserPasswordSecretRef.key"},
		"references in an object": {"AWS::EKS::Cluster", values{"forProvider": values{
			"RoleArnRef": values{"name": "r"}, "ResourcesVpcConfig": values{"SubnetIdsRefs": []any{values{"name": "a"}}}}}, ""},
		"no required reference in an object": {"AWS::EKS::Cluster", values{"forProvider": values{
			"RoleArnRef": values{"name": "r"}, "ResourcesVpcConfig": values{}}}, "ResourcesVpcConfig"},
		"two that exclude each other": {"AWS::EC2::VPC", values{"forProvider": values{"CidrBlock": "10.0.0.0/16", "Ipv4IpamPoolId": "pool"}},
			"only one of these can be set: CidrBlock; Ipv4IpamPoolId (or Ipv4IpamPoolIdRef"},
		"one beside a reference that it excludes": {"AWS::EC2::VPC", values{"forProvider": values{"CidrBlock": "10.0.0.0/16", "Ipv4IpamPoolIdRef": values{"name": "pool"}}},
			"only one of these can be set"},
		"one beside an initial value that it excludes": {"AWS::EC2::VPC", values{"forProvider": values{"CidrBlock": "10.0.0.0/16"}, "initProvider": values{"Ipv4IpamPoolId": "pool"}},
			"only one of these can be set"},
		"two of them, and only observed": {"AWS::EC2::VPC", values{"forProvider": values{"CidrBlock": "10.0.0.0/16", "Ipv4IpamPoolId": "pool"}}, ""},
		"zones by name and by number": {"AWS::EC2::Subnet", values{"forProvider": values{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/24",
			"AvailabilityZone": "us-east-1a", "AvailabilityZoneId": "use1-az1"}}, "only one of these can be set: AvailabilityZone; AvailabilityZoneId"},
		"what a replica excludes": {"AWS::RDS::DBInstance", values{"forProvider": values{"SourceDBInstanceIdentifier": "db", "MasterUserPasswordSecretRef": values{"name": "s", "key": "k"}}},
			"cannot be set beside CharacterSetName, MasterUserPassword (or MasterUserPasswordSecretRef), MasterUsername, StorageEncrypted"},
		"a certificate beside the default one": {"AWS::CloudFront::Distribution", distribution(values{"AcmCertificateArn": "a", "SslSupportMethod": "sni-only", "CloudFrontDefaultCertificate": true}),
			"only one of these can be set: AcmCertificateArn"},
		"a certificate, and not the default one": {"AWS::CloudFront::Distribution", distribution(values{"AcmCertificateArn": "a", "SslSupportMethod": "sni-only", "CloudFrontDefaultCertificate": false}), ""},
		"a rule with two sources": {"AWS::EC2::SecurityGroup", values{"forProvider": values{"GroupDescription": "g", "SecurityGroupIngress": []any{
			values{"IpProtocol": "tcp", "CidrIp": "10.0.0.0/8", "CidrIpv6": "::/0"}}}}, "SecurityGroupIngress[0]"},
		"rules with one source each": {"AWS::EC2::SecurityGroup", values{"forProvider": values{"GroupDescription": "g", "SecurityGroupIngress": []any{
			values{"IpProtocol": "tcp", "CidrIp": "10.0.0.0/8"}, values{"IpProtocol": "tcp", "CidrIpv6": "::/0"}}}}, ""},
		"a rule that the schema has twice": {"AWS::Route53::RecordSet", values{"forProvider": values{"Name": "a.example.org", "Type": "A", "HostedZoneId": "Z1", "HostedZoneName": "example.org."}},
			"only one of these can be set: HostedZoneId"},
		"a key that AWS returns, from a Secret": {"AWS::DataSync::LocationObjectStorage", values{"forProvider": values{"AgentArns": []any{"arn:aws:datasync:us-east-1:123456789012:agent/agent-0123456789abcdef0"},
			"AccessKeySecretRef": values{"name": "s", "key": "k"}}}, ""},
		"a key that AWS returns, by its value": {"AWS::DataSync::LocationObjectStorage", values{"forProvider": values{"AgentArns": []any{"arn:aws:datasync:us-east-1:123456789012:agent/agent-0123456789abcdef0"},
			"AccessKey": "AKIA0123"}}, ""},
	}
	kinds := map[string]schema.GroupVersionKind{}
	for name, tc := range cases {
		if _, isInstalled := kinds[tc.typeName]; !isInstalled {
			kinds[tc.typeName] = install(t, c, tc.typeName, false)
		}
		spec := maps.Clone(tc.spec)
		if strings.HasSuffix(name, "only observed") {
			maps.Copy(spec, observe)
		}
		_, err := c.TryApply(t, object(kinds[tc.typeName], strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace(name)), spec))
		switch {
		case tc.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("%s: want an error with %q, got %v", name, tc.refused, err)
		}
	}
}

// distribution returns the spec of a CloudFront distribution with a certificate.
func distribution(certificate values) values {
	return values{"forProvider": values{"DistributionConfig": values{
		"Enabled": true, "ViewerCertificate": certificate,
		"DefaultCacheBehavior": values{"TargetOriginId": "o", "ViewerProtocolPolicy": "allow-all"},
		"Origins":              []any{values{"Id": "o", "DomainName": "example.org", "S3OriginConfig": values{}}},
	}}}
}

// TestTheDescriptionListsWhatOnlyAWSChecks reads the description that kubectl explain shows.
func TestTheDescriptionListsWhatOnlyAWSChecks(t *testing.T) {
	definition, err := define("AWS::EC2::VPC", false)
	if err != nil {
		t.Fatal(err)
	}
	spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	got := spec.Properties["forProvider"].Description
	for _, part := range []string{"Not checked here, only by AWS: ", "conditional immutability: InstanceTenancy", "formats: CidrBlock"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
}

// TestPlainSecretsAreNotStored sets a password as a plain value: it is no field.
func TestPlainSecretsAreNotStored(t *testing.T) {
	c := testkit.NewCluster(t, testkit.ExclusiveServer(t))
	kind := install(t, c, "AWS::RDS::DBCluster", true)
	o := object(kind, "plain", values{"forProvider": values{"MasterUserPassword": "secret"}})
	o.SetNamespace("")
	stored, err := c.TryApply(t, o)
	if err == nil && strings.Contains(testkit.JSON(stored), `"secret"`) {
		t.Error("the password was stored")
	}
	o = object(kind, "elsewhere", values{"forProvider": values{"MasterUserPasswordSecretRef": values{"name": "s", "key": "k"}, "Engine": "aurora"}})
	o.SetNamespace("")
	if _, err := c.TryApply(t, o); err == nil || !strings.Contains(err.Error(), "MasterUserPasswordSecretRef.namespace") {
		t.Errorf("a Secret without namespace for a cluster-scoped resource: %v", err)
	}
}

// TestCreateOnlyProperties changes properties that can only be set at creation.
func TestCreateOnlyProperties(t *testing.T) {
	c := testkit.NewCluster(t, testkit.ExclusiveServer(t))
	kind := install(t, c, "AWS::EC2::VPC", false)
	const name = "immutable"
	apply := func(forProvider values) error {
		_, err := c.TryApply(t, object(kind, name, values{"forProvider": forProvider}))
		return err
	}
	check := func(what string, err error, refused bool) {
		t.Helper()
		if refused != (err != nil && strings.Contains(err.Error(), "can only be set when the resource is created")) || !refused && err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("create", apply(values{"CidrBlock": "10.0.0.0/16"}), false)
	check("correct before the creation", apply(values{"CidrBlock": "10.1.0.0/16"}), false)
	c.SetStatus(t, kind, "default", name, values{"atProvider": values{"VpcId": "vpc-1", "CidrBlock": "10.2.0.0/16", "New": "kept"}})
	check("change", apply(values{"CidrBlock": "10.3.0.0/16"}), true)
	check("unset", apply(values{"Ipv4IpamPoolId": "pool"}), true)
	check("change to what AWS says", apply(values{"CidrBlock": "10.2.0.0/16"}), false)
	check("change away from it", apply(values{"CidrBlock": "10.1.0.0/16"}), true)
	control := values{"Mode": "monitor"}
	check("set what was not set", apply(values{"CidrBlock": "10.2.0.0/16", "VpcEncryptionControl": control}), false)
	check("change something else", apply(values{"CidrBlock": "10.2.0.0/16", "VpcEncryptionControl": control, "EnableDnsSupport": true}), false)
	check("change inside of an object", apply(values{"CidrBlock": "10.2.0.0/16", "VpcEncryptionControl": values{"Mode": "enforce"}}), true)
	more := values{"Mode": "monitor", "LambdaExclusion": "enable"}
	check("add to an object", apply(values{"CidrBlock": "10.2.0.0/16", "VpcEncryptionControl": more}), false)
	check("unset an object", apply(values{"CidrBlock": "10.2.0.0/16"}), true)

	got := c.Get(t, kind, "default", name)
	if kept, _, _ := unstructured.NestedString(got.Object, "status", "atProvider", "New"); kept != "kept" {
		t.Errorf("a property that the schema does not know is lost: %s", testkit.JSON(got))
	}
}
