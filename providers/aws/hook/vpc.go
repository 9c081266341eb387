package hook

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// vpcUnread are the properties of a VPC that EC2 returns by a request for each VPC only, or by requests for
// other resources that do not change.
var vpcUnread = []string{"DefaultNetworkAcl", "DefaultSecurityGroup", "EnableDnsHostnames", "EnableDnsSupport", "VpcEncryptionControl"}

func readVPCs(ctx context.Context, config aws.Config, identifiers []string) (map[string]Resource, error) {
	client := newReader(config)
	return readEC2("vpc-id", identifiers, func(filters []types.Filter, token *string) ([]types.Vpc, *string, error) {
		out, err := client.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: filters, NextToken: token})
		if err != nil {
			return nil, nil, err
		}
		return out.Vpcs, out.NextToken, nil
	}, vpcProperties)
}

func vpcProperties(v types.Vpc) (string, map[string]any) {
	o := object{"InstanceTenancy": string(v.InstanceTenancy)}
	o.text("VpcId", v.VpcId)
	o.text("CidrBlock", v.CidrBlock)
	associations, blocks := []any{}, []any{}
	for _, a := range v.CidrBlockAssociationSet {
		if a.CidrBlockState != nil && a.CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			associations = append(associations, aws.ToString(a.AssociationId))
		}
	}
	for _, a := range v.Ipv6CidrBlockAssociationSet {
		if a.Ipv6CidrBlockState != nil && a.Ipv6CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
			blocks = append(blocks, aws.ToString(a.Ipv6CidrBlock))
		}
	}
	o["CidrBlockAssociations"], o["Ipv6CidrBlocks"] = associations, blocks
	o.tags(v.Tags)
	return aws.ToString(v.VpcId), o
}
