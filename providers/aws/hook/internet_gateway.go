package hook

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func readInternetGateways(ctx context.Context, config aws.Config, identifiers []string) (map[string]Resource, error) {
	client := newReader(config)
	return readEC2("internet-gateway-id", identifiers, func(filters []types.Filter, token *string) ([]types.InternetGateway, *string, error) {
		out, err := client.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{Filters: filters, NextToken: token})
		if err != nil {
			return nil, nil, err
		}
		return out.InternetGateways, out.NextToken, nil
	}, func(g types.InternetGateway) (string, map[string]any) {
		o := object{}
		o.text("InternetGatewayId", g.InternetGatewayId)
		o.tags(g.Tags)
		return aws.ToString(g.InternetGatewayId), o
	})
}
