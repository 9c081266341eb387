package model_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/model"
)

func TestImportable(t *testing.T) {
	cases := map[string]struct{ typ, read, want, refused, reason string }{
		"AVPC": {
			typ:    "AWS::EC2::VPC",
			read:   `{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16", "EnableDnsSupport": false, "DefaultNetworkAcl": "acl-1", "Tags": [{"Key": "aws:cloudformation:stack-name", "Value": "s"}, {"Key": "espalier.dev/owner", "Value": "x"}, {"Key": "Name", "Value": "main"}]}`,
			want:   `{"CidrBlock": "10.0.0.0/16", "EnableDnsSupport": false, "Tags": [{"Key": "Name", "Value": "main"}]}`,
			reason: "read-only properties and tags that are not the user's are left out, and false is kept",
		},
		"AVPCWithoutTagsOfTheUser": {
			typ:    "AWS::EC2::VPC",
			read:   `{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16", "Tags": [{"Key": "aws:x", "Value": "s"}]}`,
			want:   `{"CidrBlock": "10.0.0.0/16"}`,
			reason: "no tag of the user is left",
		},
		"ADatabase": {
			typ:    "AWS::RDS::DBInstance",
			read:   `{"DBInstanceIdentifier": "main", "MasterUserPassword": "told", "MasterUsername": "admin", "AllocatedStorage": 20, "Endpoint": {"Address": "a", "Port": "5432"}}`,
			want:   `{"DBInstanceIdentifier": "main", "MasterUsername": "admin", "AllocatedStorage": "20"}`,
			reason: "a write-only property is left out even if a read returns it, and a number becomes the string of the schema",
		},
		"AWrongEnum": {
			typ:     "AWS::Logs::LogGroup",
			read:    `{"LogGroupName": "main", "RetentionInDays": 2}`,
			want:    `{"LogGroupName": "main"}`,
			refused: "RetentionInDays",
			reason:  "the API server would refuse the object",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, refused := model.Importable(typeOf(t, tc.typ), object(t, tc.read))
			if diff := cmp.Diff(object(t, tc.want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if len(refused) != min(1, len(tc.refused)) || len(refused) > 0 && refused[0] != tc.refused {
				t.Errorf("refused %v", refused)
			}
		})
	}
}

// TestAnImportedResourceIsAsDesired imports a random state of each type: there is nothing to change.
func TestAnImportedResourceIsAsDesired(t *testing.T) {
	for i, name := range catalog.Names() {
		if testing.Short() && i%10 > 0 {
			continue
		}
		typ, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		g := generator{Rand: rand.New(rand.NewPCG(2, uint64(i))), t: typ}
		for range 4 {
			read := g.state()
			forProvider, _ := model.Importable(typ, read)
			if c := model.Compare(typ, model.Desired(typ, roundTrip(forProvider), nil), read); len(c.Differences) > 0 {
				t.Fatalf("%s: %s\nread     %s\nimported %s", name, c, text(read), text(forProvider))
			}
		}
	}
}
