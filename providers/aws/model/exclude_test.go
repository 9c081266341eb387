package model

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
)

// TestPropertiesThatExcludeEachOther is about properties that AWS returns beside each other.
func TestPropertiesThatExcludeEachOther(t *testing.T) {
	type values = map[string]any
	cases := map[string]struct {
		typ          string
		wanted, read values
		want         values
	}{
		"the first of two": {"AWS::EC2::Subnet", values{}, values{"AvailabilityZoneId": "use1-az1", "AvailabilityZone": "us-east-1a"}, values{"AvailabilityZone": "us-east-1a"}},
		"not beside the other": {"AWS::EC2::Subnet", values{"AvailabilityZoneId": "use1-az1"},
			values{"AvailabilityZoneId": "use1-az1", "AvailabilityZone": "us-east-1a"}, values{}},
		"not beside a reference of the other": {"AWS::EC2::VPC", values{"Ipv4IpamPoolIdRef": values{"name": "pool"}}, values{"CidrBlock": "10.0.0.0/16"}, values{}},
		"what another property excludes": {"AWS::RDS::DBInstance", values{"SourceDBInstanceIdentifier": "db"}, values{"MasterUsername": "me", "Engine": "mysql"},
			values{"Engine": "mysql"}},
		"in an object": {"AWS::CloudFront::Distribution",
			values{"DistributionConfig": values{"ViewerCertificate": values{"AcmCertificateArn": "arn"}}},
			values{"DistributionConfig": values{"ViewerCertificate": values{"AcmCertificateArn": "arn", "CloudFrontDefaultCertificate": true, "MinimumProtocolVersion": "TLSv1"}}},
			values{"DistributionConfig": values{"ViewerCertificate": values{"MinimumProtocolVersion": "TLSv1"}}}},
		"one that is false is as good as unset": {"AWS::CloudFront::Distribution",
			values{"DistributionConfig": values{"ViewerCertificate": values{"CloudFrontDefaultCertificate": false}}},
			values{"DistributionConfig": values{"ViewerCertificate": values{"AcmCertificateArn": "arn"}}},
			values{"DistributionConfig": values{"ViewerCertificate": values{"AcmCertificateArn": "arn"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			typ, err := catalog.Get(tc.typ)
			if err != nil {
				t.Fatal(err)
			}
			if got := Chosen(typ, tc.wanted, tc.read); fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

func TestImportedPropertiesDoNotExcludeEachOther(t *testing.T) {
	typ, err := catalog.Get("AWS::EC2::Subnet")
	if err != nil {
		t.Fatal(err)
	}
	got, refused := Importable(typ, map[string]any{"VpcId": "vpc-1", "AvailabilityZoneId": "use1-az1", "AvailabilityZone": "us-east-1a"})
	if fmt.Sprint(got) != "map[AvailabilityZone:us-east-1a VpcId:vpc-1]" || len(refused) > 0 {
		t.Errorf("got %v, and refused %v", got, refused)
	}
}
