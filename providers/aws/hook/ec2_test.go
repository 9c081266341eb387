package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

const tagSet = `<tagSet><item><key>aws:cloudformation:stack-name</key><value>s</value></item><item><key>team</key><value>a</value></item></tagSet>`

// answers are what EC2 returns for resources with all their properties, by type.
var answers = map[string]struct{ action, filter, identifier, response, want string }{
	"AWS::EC2::VPC": {
		"DescribeVpcs", "vpc-id", "vpc-1",
		`<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-1</vpcId><state>available</state><cidrBlock>10.0.0.0/16</cidrBlock><instanceTenancy>default</instanceTenancy>
		<cidrBlockAssociationSet><item><cidrBlock>10.0.0.0/16</cidrBlock><associationId>vpc-cidr-assoc-1</associationId><cidrBlockState><state>associated</state></cidrBlockState></item>
		<item><cidrBlock>10.1.0.0/16</cidrBlock><associationId>vpc-cidr-assoc-2</associationId><cidrBlockState><state>disassociated</state></cidrBlockState></item></cidrBlockAssociationSet>
		<ipv6CidrBlockAssociationSet><item><ipv6CidrBlock>2001:db8::/56</ipv6CidrBlock><ipv6CidrBlockState><state>associated</state></ipv6CidrBlockState></item></ipv6CidrBlockAssociationSet>` + tagSet + `</item></vpcSet></DescribeVpcsResponse>`,
		`{"VpcId":"vpc-1","CidrBlock":"10.0.0.0/16","InstanceTenancy":"default","CidrBlockAssociations":["vpc-cidr-assoc-1"],"Ipv6CidrBlocks":["2001:db8::/56"],"Tags":[{"Key":"team","Value":"a"}]}`,
	},
	"AWS::EC2::Subnet": {
		"DescribeSubnets", "subnet-id", "subnet-1",
		`<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><state>available</state><cidrBlock>10.0.1.0/24</cidrBlock><availabilityZone>eu-central-1a</availabilityZone>
		<availabilityZoneId>euc1-az2</availabilityZoneId><outpostArn>arn:outpost</outpostArn><assignIpv6AddressOnCreation>true</assignIpv6AddressOnCreation><mapPublicIpOnLaunch>false</mapPublicIpOnLaunch><enableDns64>false</enableDns64>
		<ipv6Native>false</ipv6Native><enableLniAtDeviceIndex>1</enableLniAtDeviceIndex>
		<ipv6CidrBlockAssociationSet><item><ipv6CidrBlock>2001:db8::/64</ipv6CidrBlock><ipv6CidrBlockState><state>associated</state></ipv6CidrBlockState></item></ipv6CidrBlockAssociationSet>
		<privateDnsNameOptionsOnLaunch><hostnameType>ip-name</hostnameType><enableResourceNameDnsARecord>true</enableResourceNameDnsARecord><enableResourceNameDnsAAAARecord>false</enableResourceNameDnsAAAARecord></privateDnsNameOptionsOnLaunch>
		<blockPublicAccessStates><internetGatewayBlockMode>off</internetGatewayBlockMode></blockPublicAccessStates>` + tagSet + `</item></subnetSet></DescribeSubnetsResponse>`,
		`{"SubnetId":"subnet-1","VpcId":"vpc-1","CidrBlock":"10.0.1.0/24","AvailabilityZone":"eu-central-1a","AvailabilityZoneId":"euc1-az2","OutpostArn":"arn:outpost","AssignIpv6AddressOnCreation":true,
		"MapPublicIpOnLaunch":false,"EnableDns64":false,"Ipv6Native":false,"EnableLniAtDeviceIndex":1,"Ipv6CidrBlock":"2001:db8::/64","Ipv6CidrBlocks":["2001:db8::/64"],
		"PrivateDnsNameOptionsOnLaunch":{"HostnameType":"ip-name","EnableResourceNameDnsARecord":true,"EnableResourceNameDnsAAAARecord":false},"BlockPublicAccessStates":{"InternetGatewayBlockMode":"off"},"Tags":[{"Key":"team","Value":"a"}]}`,
	},
	"AWS::EC2::SecurityGroup": {
		"DescribeSecurityGroups", "group-id", "sg-1",
		`<DescribeSecurityGroupsResponse><securityGroupInfo><item><ownerId>123456789012</ownerId><groupId>sg-1</groupId><groupName>web</groupName><groupDescription>Web</groupDescription><vpcId>vpc-1</vpcId>
		<ipPermissions><item><ipProtocol>tcp</ipProtocol><fromPort>443</fromPort><toPort>443</toPort><groups><item><groupId>sg-2</groupId><userId>123456789012</userId></item></groups>
		<ipRanges><item><cidrIp>10.0.0.0/8</cidrIp><description>internal</description></item><item><cidrIp>192.0.2.0/24</cidrIp></item></ipRanges><ipv6Ranges><item><cidrIpv6>2001:db8::/32</cidrIpv6></item></ipv6Ranges>
		<prefixListIds><item><prefixListId>pl-1</prefixListId></item></prefixListIds></item></ipPermissions>
		<ipPermissionsEgress><item><ipProtocol>-1</ipProtocol><ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item></ipPermissionsEgress>` + tagSet + `</item></securityGroupInfo></DescribeSecurityGroupsResponse>`,
		`{"Id":"sg-1","GroupId":"sg-1","GroupName":"web","GroupDescription":"Web","VpcId":"vpc-1","SecurityGroupIngress":[
		{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"CidrIp":"10.0.0.0/8","Description":"internal"},{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"CidrIp":"192.0.2.0/24"},
		{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"CidrIpv6":"2001:db8::/32"},{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"SourcePrefixListId":"pl-1"},
		{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"SourceSecurityGroupId":"sg-2","SourceSecurityGroupOwnerId":"123456789012"}],
		"SecurityGroupEgress":[{"IpProtocol":"-1","CidrIp":"0.0.0.0/0"}],"Tags":[{"Key":"team","Value":"a"}]}`,
	},
	"AWS::EC2::RouteTable": {
		"DescribeRouteTables", "route-table-id", "rtb-1",
		`<DescribeRouteTablesResponse><routeTableSet><item><routeTableId>rtb-1</routeTableId><vpcId>vpc-1</vpcId>` + tagSet + `</item></routeTableSet></DescribeRouteTablesResponse>`,
		`{"RouteTableId":"rtb-1","VpcId":"vpc-1","Tags":[{"Key":"team","Value":"a"}]}`,
	},
	"AWS::EC2::InternetGateway": {
		"DescribeInternetGateways", "internet-gateway-id", "igw-1",
		`<DescribeInternetGatewaysResponse><internetGatewaySet><item><internetGatewayId>igw-1</internetGatewayId>` + tagSet + `</item></internetGatewaySet></DescribeInternetGatewaysResponse>`,
		`{"InternetGatewayId":"igw-1","Tags":[{"Key":"team","Value":"a"}]}`,
	},
	"AWS::EC2::NatGateway": {
		"DescribeNatGateways", "nat-gateway-id", "nat-1",
		`<DescribeNatGatewaysResponse><natGatewaySet><item><natGatewayId>nat-1</natGatewayId><state>available</state><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><connectivityType>public</connectivityType><availabilityMode>zonal</availabilityMode>
		<routeTableId>rtb-1</routeTableId><autoProvisionZones>disabled</autoProvisionZones><autoScalingIps>disabled</autoScalingIps>
		<natGatewayAddressSet><item><allocationId>eipalloc-2</allocationId><isPrimary>false</isPrimary></item><item><allocationId>eipalloc-1</allocationId><networkInterfaceId>eni-1</networkInterfaceId><privateIp>10.0.0.5</privateIp><isPrimary>true</isPrimary></item></natGatewayAddressSet>` + tagSet + `</item>
		<item><natGatewayId>nat-2</natGatewayId><state>deleted</state></item></natGatewaySet></DescribeNatGatewaysResponse>`,
		`{"NatGatewayId":"nat-1","SubnetId":"subnet-1","VpcId":"vpc-1","ConnectivityType":"public","AvailabilityMode":"zonal","RouteTableId":"rtb-1","AutoProvisionZones":"disabled","AutoScalingIps":"disabled",
		"AllocationId":"eipalloc-1","EniId":"eni-1","PrivateIpAddress":"10.0.0.5","Tags":[{"Key":"team","Value":"a"}]}`,
	},
}

func TestManyResourcesAreReadByOneRequest(t *testing.T) {
	for name, tc := range answers {
		f, config := newFake(t, map[string][]string{tc.action: {tc.response}})
		got, err := For(name).ReadMany(context.Background(), config, []string{tc.identifier, "missing"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := map[string]Resource{tc.identifier: {Identifier: tc.identifier, Properties: properties(t, tc.want)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		form := f.forms[0]
		if form.Get("Filter.1.Name") != tc.filter || form.Get("Filter.1.Value.1") != tc.identifier || form.Get("Filter.1.Value.2") != "missing" || len(f.calls) != 1 {
			t.Errorf("%s: got calls %s with %v", name, f.called(), form)
		}
		// What ReadMany leaves out must be known: it would look as if somebody had removed it.
		typ, err := catalog.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for property := range typ.Properties {
			_, isRead := got[tc.identifier].Properties[property]
			isWriteOnly := slices.ContainsFunc(typ.WriteOnlyProperties, func(p resourcetype.Path) bool { return p.String() == property })
			if !isRead && !isWriteOnly && !slices.Contains(For(name).Unread, property) {
				t.Errorf("%s: %s is neither read nor in Unread", name, property)
			}
		}
		for property := range got[tc.identifier].Properties {
			if typ.Properties[property] == nil {
				t.Errorf("%s has no property %s", name, property)
			}
		}
	}
}

func TestAllPagesAreRead(t *testing.T) {
	page := func(id, token string) string {
		return fmt.Sprintf(`<DescribeVpcsResponse><vpcSet><item><vpcId>%s</vpcId></item></vpcSet><nextToken>%s</nextToken></DescribeVpcsResponse>`, id, token)
	}
	f, config := newFake(t, map[string][]string{"DescribeVpcs": {page("vpc-1", "more"), page("vpc-2", "")}})
	got, err := readVPCs(context.Background(), config, []string{"vpc-1", "vpc-2"})
	if err != nil || len(got) != 2 || f.forms[1].Get("NextToken") != "more" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := readVPCs(context.Background(), config, nil); err != nil || len(got) != 0 || len(f.calls) != 2 {
		t.Errorf("without identifiers: %v, %v, calls %s", got, err, f.called())
	}
	_, config = newFake(t, map[string][]string{"DescribeVpcs": {failure("RequestLimitExceeded")}})
	if _, err := readVPCs(context.Background(), config, []string{"vpc-1"}); !hasCode(err, "RequestLimitExceeded") {
		t.Errorf("got %v", err)
	}
}

func TestRulesOfSecurityGroupsAreNormalized(t *testing.T) {
	wanted := `{"GroupDescription":"Web","SecurityGroupIngress":[
		{"IpProtocol":"6","FromPort":443,"ToPort":443,"CidrIp":"10.1.2.3/8","Description":""},
		{"IpProtocol":"TCP","FromPort":22,"ToPort":22,"SourceSecurityGroupId":"sg-2"},
		{"IpProtocol":50,"FromPort":-1,"ToPort":-1,"CidrIpv6":"2001:DB8:0::/32"},
		{"IpProtocol":"-1","FromPort":0,"ToPort":65535,"CidrIp":"192.0.2.0/24"},
		{"IpProtocol":"-1","CidrIp":"192.0.2.0/24"}],"SecurityGroupEgress":"unexpected"}`
	read := `{"GroupDescription":"Web","SecurityGroupIngress":[
		{"IpProtocol":"-1","CidrIp":"192.0.2.0/24"},
		{"IpProtocol":"50","CidrIpv6":"2001:db8::/32"},
		{"IpProtocol":"tcp","FromPort":22,"ToPort":22,"SourceSecurityGroupId":"sg-2","SourceSecurityGroupOwnerId":"123456789012"},
		{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"CidrIp":"10.0.0.0/8"}],"SecurityGroupEgress":"unexpected"}`
	argument := properties(t, wanted)
	if diff := cmp.Diff(normalizeSecurityGroup(properties(t, read)), normalizeSecurityGroup(argument)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(properties(t, wanted), argument); diff != "" {
		t.Errorf("the argument was changed: %s", diff)
	}
	other := strings.Replace(read, `"FromPort":22`, `"FromPort":23`, 1)
	if cmp.Equal(normalizeSecurityGroup(properties(t, other)), normalizeSecurityGroup(argument)) {
		t.Error("different rules are the same")
	}
}

// TestAnEndlessResponseEnds has a service return a next page each time, with resources that were not requested.
func TestAnEndlessResponseEnds(t *testing.T) {
	calls := 0
	page := func([]types.Filter, *string) ([]string, *string, error) {
		calls++
		next := fmt.Sprint(calls)
		return []string{"vpc-1", "other-" + next}, &next, nil
	}
	convert := func(id string) (string, map[string]any) { return id, map[string]any{"VpcId": id} }
	if _, err := readEC2("vpc-id", []string{"vpc-1"}, page, convert); err == nil || calls > maxPages {
		t.Errorf("after %d pages: %v", calls, err)
	}
	last := func([]types.Filter, *string) ([]string, *string, error) { return []string{"vpc-1", "other"}, nil, nil }
	if found, err := readEC2("vpc-id", []string{"vpc-1"}, last, convert); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
}
