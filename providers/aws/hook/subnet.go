package hook

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// subnetUnread is the association with a network ACL, which EC2 returns with the ACL.
var subnetUnread = []string{"NetworkAclAssociationId"}

func readSubnets(ctx context.Context, config aws.Config, identifiers []string) (map[string]Resource, error) {
	client := newReader(config)
	return readEC2("subnet-id", identifiers, func(filters []types.Filter, token *string) ([]types.Subnet, *string, error) {
		out, err := client.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: filters, NextToken: token})
		if err != nil {
			return nil, nil, err
		}
		return out.Subnets, out.NextToken, nil
	}, subnetProperties)
}

func subnetProperties(s types.Subnet) (string, map[string]any) {
	o := object{}
	o.text("SubnetId", s.SubnetId)
	o.text("VpcId", s.VpcId)
	o.text("CidrBlock", s.CidrBlock)
	o.text("AvailabilityZone", s.AvailabilityZone)
	o.text("AvailabilityZoneId", s.AvailabilityZoneId)
	o.text("OutpostArn", s.OutpostArn)
	o.flag("AssignIpv6AddressOnCreation", s.AssignIpv6AddressOnCreation)
	o.flag("MapPublicIpOnLaunch", s.MapPublicIpOnLaunch)
	o.flag("EnableDns64", s.EnableDns64)
	o.flag("Ipv6Native", s.Ipv6Native)
	o.number("EnableLniAtDeviceIndex", s.EnableLniAtDeviceIndex)
	blocks := []any{}
	for _, a := range s.Ipv6CidrBlockAssociationSet {
		if a.Ipv6CidrBlockState != nil && a.Ipv6CidrBlockState.State == types.SubnetCidrBlockStateCodeAssociated {
			blocks = append(blocks, aws.ToString(a.Ipv6CidrBlock))
		}
	}
	if o["Ipv6CidrBlocks"] = blocks; len(blocks) > 0 {
		o["Ipv6CidrBlock"] = blocks[0]
	}
	if p := s.PrivateDnsNameOptionsOnLaunch; p != nil {
		options := object{"HostnameType": string(p.HostnameType)}
		options.flag("EnableResourceNameDnsARecord", p.EnableResourceNameDnsARecord)
		options.flag("EnableResourceNameDnsAAAARecord", p.EnableResourceNameDnsAAAARecord)
		o["PrivateDnsNameOptionsOnLaunch"] = map[string]any(options)
	}
	if b := s.BlockPublicAccessStates; b != nil {
		o["BlockPublicAccessStates"] = map[string]any{"InternetGatewayBlockMode": string(b.InternetGatewayBlockMode)}
	}
	o.tags(s.Tags)
	return aws.ToString(s.SubnetId), o
}
