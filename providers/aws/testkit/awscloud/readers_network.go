package awscloud

import (
	"context"
	"strconv"
)

// networkReaders are the types of EC2.
var networkReaders = map[string]reader{
	"AWS::EC2::VPC": {
		read: describe("DescribeVpcs", "VpcId", "vpcSet"), list: describeAll("DescribeVpcs", "vpcSet", "vpcId"),
		aliases: tagSet, covers: []string{"Tags"}, more: vpcAttributes,
	},
	"AWS::EC2::Subnet": {
		read: describe("DescribeSubnets", "SubnetId", "subnetSet"), list: describeAll("DescribeSubnets",
			"subnetSet", "subnetId"),
		aliases: tagSet, covers: []string{"Tags"}, blocked: subnetInUse,
	},
	"AWS::EC2::InternetGateway": {
		read: describe("DescribeInternetGateways", "InternetGatewayId", "internetGatewaySet"),
		list: describeAll("DescribeInternetGateways", "internetGatewaySet",
			"internetGatewayId"), aliases: tagSet, covers: []string{"Tags"}, blocked: gatewayAttached,
	},
	"AWS::EC2::RouteTable": {
		read: describe("DescribeRouteTables", "RouteTableId", "routeTableSet"),
		list: describeAll("DescribeRouteTables", "routeTableSet",
			"routeTableId"), aliases: tagSet, covers: []string{"Tags"},
	},
	"AWS::EC2::SecurityGroup": {
		read: describe("DescribeSecurityGroups", "GroupId", "securityGroupInfo"),
		list: describeAll("DescribeSecurityGroups", "securityGroupInfo", "groupId"), covers: []string{"Tags",
			"SecurityGroupIngress", "SecurityGroupEgress"},
		aliases: map[string]string{"Tags": "tagSet", "Id": "groupId"}, more: securityGroupRules, blocked: groupReferenced,
	},
	"AWS::EC2::VPCEndpoint": {
		read: describe("DescribeVpcEndpoints", "VpcEndpointId", "vpcEndpointSet"),
		list: describeAll("DescribeVpcEndpoints", "vpcEndpointSet",
			"vpcEndpointId"), aliases: map[string]string{"Tags": "tagSet", "Id": "vpcEndpointId"}, covers: []string{"Tags"},
	},
}

var tagSet = map[string]string{"Tags": "tagSet"}

// describe reads a resource of EC2.
func describe(action, parameter, set string) func(context.Context, caller, string) (*node, error) {
	return func(ctx context.Context, from caller, identifier string) (*node, error) {
		answer, err := from.query(ctx, "ec2", action, map[string]string{parameter + ".1": identifier})
		if err != nil {
			return nil, err
		}
		items := answer.get(set).items
		if len(items) == 0 {
			return nil, missing(identifier)
		}
		return items[0], nil
	}
}

func describeAll(action, set, id string) func(context.Context, caller) ([]string, error) {
	return func(ctx context.Context, from caller) ([]string, error) {
		answer, err := from.query(ctx, "ec2", action, nil)
		if err != nil {
			return nil, err
		}
		return texts(answer.get(set), id), nil
	}
}

func vpcAttributes(ctx context.Context, from caller, identifier string, description *node,
	out map[string]any) error {
	for property, name := range map[string]string{"EnableDnsSupport": "enableDnsSupport",
		"EnableDnsHostnames": "enableDnsHostnames"} {
		answer, err := from.query(ctx, "ec2", "DescribeVpcAttribute", map[string]string{"VpcId": identifier,
			"Attribute": name})
		if err != nil {
			return err
		}
		if v, err := strconv.ParseBool(answer.get(name, "value").text); err == nil {
			out[property] = v
		}
	}
	setList(out, "CidrBlockAssociations", texts(description.get("cidrBlockAssociationSet"), "associationId"))
	for property, list := range map[string][4]string{
		"DefaultSecurityGroup": {"DescribeSecurityGroups", "group-name", "securityGroupInfo", "groupId"},
		"DefaultNetworkAcl":    {"DescribeNetworkAcls", "default", "networkAclSet", "networkAclId"},
	} {
		wanted := "default"
		if list[1] == "default" {
			wanted = "true"
		}
		answer, err := from.query(ctx, "ec2", list[0], filters("vpc-id", identifier, list[1], wanted))
		if err != nil {
			return err
		}
		if found := texts(answer.get(list[2]), list[3]); len(found) > 0 {
			out[property] = found[0]
		}
	}
	return nil
}

// filters returns the parameters of filters with one value each.
func filters(namesAndValues ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(namesAndValues); i += 2 {
		prefix := "Filter." + strconv.Itoa(i/2+1)
		out[prefix+".Name"], out[prefix+".Value.1"] = namesAndValues[i], namesAndValues[i+1]
	}
	return out
}

// securityGroupRules turns permissions, which have a list of sources, into rules with one source each,
// as AWS's handler returns them.
func securityGroupRules(_ context.Context, _ caller, _ string, description *node, out map[string]any) error {
	for property, list := range map[string]string{"SecurityGroupIngress": "ipPermissions",
		"SecurityGroupEgress": "ipPermissionsEgress"} {
		var rules []any
		for _, permission := range description.get(list).items {
			rules = append(rules, rulesOf(permission, property == "SecurityGroupIngress")...)
		}
		if len(rules) > 0 {
			out[property] = rules
		} else {
			delete(out, property)
		}
	}
	return nil
}

func rulesOf(permission *node, ingress bool) []any {
	base := map[string]any{"IpProtocol": permission.get("ipProtocol").text}
	for property, name := range map[string]string{"FromPort": "fromPort", "ToPort": "toPort"} {
		if port, err := strconv.ParseFloat(permission.get(name).text, 64); err == nil {
			base[property] = port
		}
	}
	group := "DestinationSecurityGroupId"
	if ingress {
		group = "SourceSecurityGroupId"
	}
	var rules []any
	for _, source := range [][3]string{{"ipRanges", "cidrIp", "CidrIp"}, {"ipv6Ranges", "cidrIpv6",
		"CidrIpv6"}, {"groups", "groupId", group}} {
		for _, item := range permission.get(source[0]).items {
			rule := cloneObject(base)
			rule[source[2]] = item.get(source[1]).text
			if d := item.get("description").text; d != "" {
				rule["Description"] = d
			}
			rules = append(rules, rule)
		}
	}
	return rules
}
