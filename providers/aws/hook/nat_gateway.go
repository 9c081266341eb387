package hook

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// natGatewayUnread are the further addresses of a gateway: Cloud Control returns them as they were specified,
// which EC2's answer does not show.
var natGatewayUnread = []string{"AvailabilityZoneAddresses", "MaxDrainDurationSeconds", "SecondaryAllocationIds", "SecondaryPrivateIpAddressCount",
	"SecondaryPrivateIpAddresses"}

func readNATGateways(ctx context.Context, config aws.Config, identifiers []string) (map[string]Resource, error) {
	client := newReader(config)
	return readEC2("nat-gateway-id", identifiers, func(filters []types.Filter, token *string) ([]types.NatGateway, *string, error) {
		out, err := client.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{Filter: filters, NextToken: token})
		if err != nil {
			return nil, nil, err
		}
		return out.NatGateways, out.NextToken, nil
	}, natGatewayProperties)
}

func natGatewayProperties(g types.NatGateway) (string, map[string]any) {
	// A deleted gateway can be seen for an hour.
	if g.State == types.NatGatewayStateDeleted || g.State == types.NatGatewayStateFailed {
		return "", nil
	}
	o := object{"ConnectivityType": string(g.ConnectivityType)}
	o.text("NatGatewayId", g.NatGatewayId)
	o.text("SubnetId", g.SubnetId)
	o.text("VpcId", g.VpcId)
	o.text("RouteTableId", g.RouteTableId)
	for name, value := range map[string]string{
		"AvailabilityMode": string(g.AvailabilityMode), "AutoProvisionZones": string(g.AutoProvisionZones), "AutoScalingIps": string(g.AutoScalingIps),
	} {
		if value != "" {
			o[name] = value
		}
	}
	for _, a := range g.NatGatewayAddresses {
		if aws.ToBool(a.IsPrimary) || len(g.NatGatewayAddresses) == 1 {
			o.text("AllocationId", a.AllocationId)
			o.text("EniId", a.NetworkInterfaceId)
			o.text("PrivateIpAddress", a.PrivateIp)
		}
	}
	o.tags(g.Tags)
	return aws.ToString(g.NatGatewayId), o
}
