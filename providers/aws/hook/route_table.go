package hook

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func readRouteTables(ctx context.Context, config aws.Config, identifiers []string) (map[string]Resource, error) {
	client := newReader(config)
	return readEC2("route-table-id", identifiers, func(filters []types.Filter, token *string) ([]types.RouteTable, *string, error) {
		out, err := client.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: filters, NextToken: token})
		if err != nil {
			return nil, nil, err
		}
		return out.RouteTables, out.NextToken, nil
	}, func(r types.RouteTable) (string, map[string]any) {
		o := object{}
		o.text("RouteTableId", r.RouteTableId)
		o.text("VpcId", r.VpcId)
		o.tags(r.Tags)
		return aws.ToString(r.RouteTableId), o
	})
}
