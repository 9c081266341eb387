package reference

import (
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// TestOverlayIsAboutWhatExists looks each name of the overlay up in the schemas.
func TestOverlayIsAboutWhatExists(t *testing.T) {
	o := load()
	targets := map[target]string{}
	for from, to := range o.Formats {
		targets[to] = from
	}
	for from, to := range o.Relationships {
		targets[to] = from
	}
	for from, to := range o.Names {
		targets[to] = from
	}
	for name, properties := range o.Properties {
		found, err := catalog.Get(name)
		if err != nil {
			t.Error(err)
			continue
		}
		references := Of(found)
		for path, to := range properties {
			targets[to] = name + "." + path
			has := slices.ContainsFunc(references, func(r Reference) bool { return r.Path.String() == path })
			if at := found.At(strings.Split(path, ".")); len(at) == 0 {
				t.Errorf("%s has no property %s", name, path)
			} else if has != (to != none) {
				t.Errorf("%s.%s: is a reference %t, and the target is %s", name, path, has, to)
			}
		}
	}
	for to, from := range targets {
		if to != none {
			checkTarget(t, to, from)
		}
	}
}

// checkTarget checks that the target of a reference exists, and that it is its identifier or a property of it.
func checkTarget(t *testing.T, to target, from string) {
	t.Helper()
	name, attribute := to.split()
	found, err := catalog.Get(name)
	if err != nil {
		t.Errorf("%s: %v", from, err)
		return
	}
	switch {
	case attribute == nil && len(found.PrimaryIdentifier) > 1:
		t.Errorf("%s: the identifier of %s has the parts %v; name one of them", from, name, found.PrimaryIdentifier)
	case attribute != nil && len(found.At(attribute)) == 0:
		t.Errorf("%s: %s has no property %s", from, name, attribute)
	case attribute != nil && resourcetype.Has(found.WriteOnlyProperties, attribute):
		t.Errorf("%s: the property %s of %s is not read", from, attribute, name)
	}
}

func TestReferencesOfAllTypes(t *testing.T) {
	o := load()
	total, types, most := 0, 0, 0
	for _, name := range catalog.Names() {
		found, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		references := Of(found)
		for _, r := range references {
			if !catalog.Has(r.To) {
				t.Errorf("%s.%s: refers to %s, which there is not", name, r.Path, r.To)
			}
			if resourcetype.Has(found.ReadOnlyProperties, r.Path) {
				t.Errorf("%s.%s: AWS sets it", name, r.Path)
			}
			if at := found.At(r.Path); len(at) == 0 || r.List != found.HasType(at[0], "array") {
				t.Errorf("%s.%s: is a list %t", name, r.Path, r.List)
			}
		}
		if total += len(references); len(references) > 0 {
			types++
		}
		most = max(most, len(references))
		checkRelationships(t, o, found)
	}
	t.Logf("%d references of %d types, at most %d of one", total, types, most)
	if total < 1500 {
		t.Errorf("there are only %d references", total)
	}
}

// checkRelationships checks that the overlay knows all relationships that a schema names.
func checkRelationships(t *testing.T, o overlay, found *resourcetype.Type) {
	t.Helper()
	var visit func(s *resourcetype.Schema)
	visit = func(s *resourcetype.Schema) {
		if s == nil {
			return
		}
		if r := s.RelationshipRef; r != nil {
			if _, isKnown := o.Relationships[r.TypeName+"."+r.PropertyPath.String()]; !isKnown {
				t.Errorf("%s refers to %s.%s, which overlay.yaml does not have", found.Name, r.TypeName, r.PropertyPath)
			}
		}
		for _, child := range children(s) {
			visit(child)
		}
		for _, alternative := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
			visit(alternative)
		}
	}
	visit(&found.Schema)
	for _, definition := range found.Definitions {
		visit(definition)
	}
}

func TestReferencesOfWellKnownTypes(t *testing.T) {
	cases := map[string][]string{
		"AWS::EC2::Subnet": {
			"Ipv4IpamPoolId AWS::EC2::IPAMPool", "Ipv6IpamPoolId AWS::EC2::IPAMPool", "VpcId AWS::EC2::VPC"},
		"AWS::EKS::Cluster": {
			"ComputeConfig.NodeRoleArn AWS::IAM::Role.Arn", "EncryptionConfig.*.Provider.KeyArn AWS::KMS::Key.Arn",
			"ResourcesVpcConfig.SecurityGroupIds[] AWS::EC2::SecurityGroup", "ResourcesVpcConfig.SubnetIds[] AWS::EC2::Subnet",
			"RoleArn AWS::IAM::Role.Arn"},
		"AWS::EKS::Nodegroup": {
			"ClusterName AWS::EKS::Cluster", "LaunchTemplate.Id AWS::EC2::LaunchTemplate", "NodeRole AWS::IAM::Role.Arn",
			"RemoteAccess.Ec2SshKey AWS::EC2::KeyPair", "RemoteAccess.SourceSecurityGroups[] AWS::EC2::SecurityGroup",
			"Subnets[] AWS::EC2::Subnet"},
	}
	for name, want := range cases {
		found, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range Of(found) {
			text := r.Path.String()
			if r.List {
				text += "[]"
			}
			text += " " + r.To
			if r.Attribute != nil {
				text += "." + r.Attribute.String()
			}
			got = append(got, text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: want %q, got %q", name, want, got)
		}
	}
}
