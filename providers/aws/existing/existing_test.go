package existing_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/existing"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
)

// cloud has the properties of resources by type and identifier.
type cloud map[string]map[string]string

func (c cloud) GetResource(_ context.Context, in *cloudcontrol.GetResourceInput, _ ...func(*cloudcontrol.Options)) (*cloudcontrol.GetResourceOutput, error) {
	properties, ok := c[*in.TypeName][*in.Identifier]
	if !ok {
		return nil, &types.ResourceNotFoundException{}
	}
	return &cloudcontrol.GetResourceOutput{ResourceDescription: &types.ResourceDescription{Identifier: in.Identifier, Properties: aws.String(properties)}}, nil
}

// ListResources has one resource a page, and no properties.
func (c cloud) ListResources(_ context.Context, in *cloudcontrol.ListResourcesInput, _ ...func(*cloudcontrol.Options)) (*cloudcontrol.ListResourcesOutput, error) {
	out, next := &cloudcontrol.ListResourcesOutput{}, ""
	for identifier := range c[*in.TypeName] {
		if identifier > aws.ToString(in.NextToken) && (next == "" || identifier < next) {
			next = identifier
		}
	}
	if next != "" {
		out.ResourceDescriptions, out.NextToken = []types.ResourceDescription{{Identifier: aws.String(next)}}, aws.String(next)
	}
	return out, nil
}

func tagged(properties map[string]any, value string) string {
	properties["Tags"] = []any{map[string]any{"Key": "env", "Value": value}}
	raw, err := json.Marshal(properties)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

var network = cloud{
	"AWS::EC2::VPC": {"vpc-1": `{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16"}`},
	"AWS::EC2::Subnet": {
		"subnet-1": tagged(map[string]any{"SubnetId": "subnet-1", "VpcId": "vpc-1"}, "prod"),
		"subnet-2": tagged(map[string]any{"SubnetId": "subnet-2", "VpcId": "vpc-1"}, "test"),
		"subnet-3": tagged(map[string]any{"SubnetId": "subnet-3", "VpcId": "vpc-2"}, "prod"),
	},
}

func names(resources []manifest.Resource) (out []string) {
	for _, r := range resources {
		out = append(out, r.Identifier)
	}
	return out
}

func TestRead(t *testing.T) {
	r := existing.Reader{API: network, Types: catalog.Get, Limit: 2}
	cases := map[string]struct {
		selection existing.Selection
		want      []string
		err       string
	}{
		"ByIdentifier":   {selection: existing.Selection{Type: "AWS::EC2::Subnet", Identifiers: []string{"subnet-3", "subnet-1"}}, want: []string{"subnet-3", "subnet-1"}},
		"ByTag":          {selection: existing.Selection{Type: "AWS::EC2::Subnet", Tags: map[string]string{"env": "prod"}}, want: []string{"subnet-1", "subnet-3"}},
		"NoneWithATag":   {selection: existing.Selection{Type: "AWS::EC2::Subnet", Tags: map[string]string{"env": "dev"}}},
		"TooMany":        {selection: existing.Selection{Type: "AWS::EC2::Subnet"}, err: "more than 2 resources"},
		"Missing":        {selection: existing.Selection{Type: "AWS::EC2::VPC", Identifiers: []string{"vpc-9"}}, err: "there is no AWS::EC2::VPC vpc-9"},
		"AListNeedsMore": {selection: existing.Selection{Type: "AWS::EKS::Nodegroup"}, err: `only with ClusterName: set --list-with`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := r.Read(t.Context(), tc.selection)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if tc.err == "" {
				if diff := cmp.Diff(tc.want, names(got)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestFollow(t *testing.T) {
	r := existing.Reader{API: network, Types: catalog.Get, Limit: 10}
	found, err := r.Read(t.Context(), existing.Selection{Type: "AWS::EC2::Subnet"})
	if err != nil {
		t.Fatal(err)
	}
	found, notes, err := r.Follow(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"subnet-1", "subnet-2", "subnet-3", "vpc-1"}, names(found)); diff != "" {
		t.Error(diff)
	}
	want := []string{"AWS::EC2::Subnet subnet-3 refers to AWS::EC2::VPC vpc-2, which is left out: it does not exist in this account and region"}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Error(diff)
	}
}
