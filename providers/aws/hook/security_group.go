package hook

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func readSecurityGroups(ctx context.Context, config aws.Config, identifiers []string) (map[string]Resource, error) {
	client := newReader(config)
	return readEC2("group-id", identifiers, func(filters []types.Filter, token *string) ([]types.SecurityGroup, *string, error) {
		out, err := client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: filters, NextToken: token})
		if err != nil {
			return nil, nil, err
		}
		return out.SecurityGroups, out.NextToken, nil
	}, securityGroupProperties)
}

func securityGroupProperties(g types.SecurityGroup) (string, map[string]any) {
	o := object{}
	o.text("Id", g.GroupId)
	o.text("GroupId", g.GroupId)
	o.text("GroupName", g.GroupName)
	o.text("GroupDescription", g.Description)
	o.text("VpcId", g.VpcId)
	o["SecurityGroupIngress"] = rules(g.IpPermissions, "Source")
	o["SecurityGroupEgress"] = rules(g.IpPermissionsEgress, "Destination")
	o.tags(g.Tags)
	return aws.ToString(g.GroupId), o
}

// There is one rule for each range, list or group. side is Source or Destination.
func rules(permissions []types.IpPermission, side string) []any {
	out := []any{}
	for _, p := range permissions {
		add := func(field string, value, description *string) object {
			rule := object{}
			rule.text("IpProtocol", p.IpProtocol)
			rule.number("FromPort", p.FromPort)
			rule.number("ToPort", p.ToPort)
			rule.text("Description", description)
			rule.text(field, value)
			out = append(out, map[string]any(rule))
			return rule
		}
		for _, r := range p.IpRanges {
			add("CidrIp", r.CidrIp, r.Description)
		}
		for _, r := range p.Ipv6Ranges {
			add("CidrIpv6", r.CidrIpv6, r.Description)
		}
		for _, l := range p.PrefixListIds {
			add(side+"PrefixListId", l.PrefixListId, l.Description)
		}
		for _, g := range p.UserIdGroupPairs {
			rule := add(side+"SecurityGroupId", g.GroupId, g.Description)
			if side == "Source" {
				rule.text("SourceSecurityGroupOwnerId", g.UserId)
			}
		}
	}
	return out
}

// normalizeSecurityGroup makes the rules of a group sets of rules as AWS returns them.
func normalizeSecurityGroup(properties map[string]any) map[string]any {
	out := maps.Clone(properties)
	for _, name := range []string{"SecurityGroupIngress", "SecurityGroupEgress"} {
		list, ok := properties[name].([]any)
		if !ok {
			continue
		}
		byText := map[string]any{}
		for _, item := range list {
			if rule, ok := item.(map[string]any); ok {
				item = normalizeRule(rule)
			}
			raw, err := json.Marshal(item)
			if err != nil {
				return properties
			}
			byText[string(raw)] = item
		}
		sorted := make([]any, 0, len(byText))
		for _, key := range slices.Sorted(maps.Keys(byText)) {
			sorted = append(sorted, byText[key])
		}
		out[name] = sorted
	}
	return out
}

// protocols are the names that AWS returns for the numbers of protocols.
var protocols = map[string]string{"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "all": "-1"}

// normalizeRule makes a rule what AWS returns for it.
func normalizeRule(rule map[string]any) map[string]any {
	out := maps.Clone(rule)
	protocol := strings.ToLower(scalar(rule["IpProtocol"]))
	if name, ok := protocols[protocol]; ok {
		protocol = name
	}
	if protocol != "" {
		out["IpProtocol"] = protocol
	}
	switch protocol {
	case "tcp", "udp", "icmp", "icmpv6", "":
	default: // has no ports; AWS ignores them
		delete(out, "FromPort")
		delete(out, "ToPort")
	}
	for _, name := range []string{"CidrIp", "CidrIpv6"} {
		if cidr, ok := rule[name].(string); ok {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				out[name] = prefix.Masked().String()
			}
		}
	}
	// The identifier of a group names its owner.
	if rule["SourceSecurityGroupId"] != nil {
		delete(out, "SourceSecurityGroupOwnerId")
		delete(out, "SourceSecurityGroupName")
	}
	if rule["Description"] == "" {
		delete(out, "Description")
	}
	return out
}
