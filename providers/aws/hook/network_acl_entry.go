package hook

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// networkACLEntries handles AWS::EC2::NetworkAclEntry. The identifier is ACL|RULE|EGRESS, such as
// acl-1|100|false: there is at most one entry of a number and direction.
type networkACLEntries struct{}

type entry struct {
	NetworkAclId  string     `json:"NetworkAclId"`
	RuleNumber    flexible   `json:"RuleNumber"`
	Egress        bool       `json:"Egress"`
	Protocol      flexible   `json:"Protocol"`
	RuleAction    string     `json:"RuleAction"`
	CidrBlock     *string    `json:"CidrBlock"`
	Ipv6CidrBlock *string    `json:"Ipv6CidrBlock"`
	Icmp          *entryICMP `json:"Icmp"`
	PortRange     *entryPort `json:"PortRange"`
}

type entryICMP struct{ Code, Type *int32 }

type entryPort struct{ From, To *int32 }

// flexible is a number.
type flexible int32

// UnmarshalJSON reads a number or a string with one.
func (f *flexible) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 32)
	*f = flexible(n)
	return err
}

func parseEntry(properties map[string]any) (entry, error) { return decodeProperties[entry](properties) }

func (networkACLEntries) Identifier(desired map[string]any) string {
	acl, number := text(desired, "NetworkAclId"), scalar(desired["RuleNumber"])
	if acl == "" || number == "" {
		return ""
	}
	egress, _ := desired["Egress"].(bool)
	return acl + "|" + number + "|" + strconv.FormatBool(egress)
}

func splitEntry(identifier string) (acl string, number int32, egress bool, err error) {
	parts := strings.Split(identifier, "|")
	if len(parts) == 3 {
		n, numberErr := strconv.ParseInt(parts[1], 10, 32)
		e, egressErr := strconv.ParseBool(parts[2])
		if numberErr == nil && egressErr == nil {
			return parts[0], int32(n), e, nil
		}
	}
	return "", 0, false, fmt.Errorf("%q is not the identifier of an entry: it is ACL|RULE|EGRESS, such as acl-1|100|false", identifier)
}

// entries returns the entries of an ACL; none if the ACL does not exist.
func (networkACLEntries) entries(ctx context.Context, config aws.Config, acl string) ([]types.NetworkAclEntry, error) {
	found, err := ec2.NewFromConfig(config).DescribeNetworkAcls(ctx,
		&ec2.DescribeNetworkAclsInput{Filters: []types.Filter{{Name: aws.String("network-acl-id"), Values: []string{acl}}}})
	if err != nil || len(found.NetworkAcls) == 0 {
		return nil, err
	}
	return found.NetworkAcls[0].Entries, nil
}

// lastRule is the number of the entry that denies everything, which AWS adds and cannot be changed.
const lastRule = 32767

func (n networkACLEntries) List(ctx context.Context, config aws.Config, model map[string]any) ([]string, error) {
	acl := text(model, "NetworkAclId")
	entries, err := n.entries(ctx, config, acl)
	var out []string
	for _, e := range entries {
		if number := aws.ToInt32(e.RuleNumber); number < lastRule {
			out = append(out, fmt.Sprintf("%s|%d|%t", acl, number, aws.ToBool(e.Egress)))
		}
	}
	return out, err
}

func (n networkACLEntries) Create(ctx context.Context, config aws.Config, desired map[string]any, _ []string) (Created, error) {
	e, err := parseEntry(desired)
	if err != nil {
		return Created{}, err
	}
	identifier := n.Identifier(desired)
	_, err = ec2.NewFromConfig(config).CreateNetworkAclEntry(ctx, &ec2.CreateNetworkAclEntryInput{
		NetworkAclId: &e.NetworkAclId, RuleNumber: aws.Int32(int32(e.RuleNumber)), Egress: &e.Egress, Protocol: aws.String(e.protocol()),
		RuleAction: types.RuleAction(strings.ToLower(e.RuleAction)),
		CidrBlock:  e.CidrBlock, Ipv6CidrBlock: e.Ipv6CidrBlock, IcmpTypeCode: e.icmp(), PortRange: e.ports(),
	})
	created := Created{Resource: Resource{Identifier: identifier, Properties: desired}}
	if !hasCode(err, "NetworkAclEntryAlreadyExists") {
		return created, err
	}
	// It exists: that is this creation, repeated, if it is what is desired.
	found, readErr := n.Read(ctx, config, identifier)
	if readErr != nil {
		return Created{}, readErr
	}
	if found == nil || !includes(found.Properties, desired) {
		return Created{}, err
	}
	return created, nil
}

// Values of desired properties are the same in read.
func includes(read, desired map[string]any) bool {
	a, err := parseEntry(read)
	if err != nil {
		return false
	}
	merged := maps.Clone(read)
	maps.Copy(merged, desired)
	b, err := parseEntry(merged)
	a.CidrBlock, b.CidrBlock = masked(a.CidrBlock), masked(b.CidrBlock)
	a.Ipv6CidrBlock, b.Ipv6CidrBlock = masked(a.Ipv6CidrBlock), masked(b.Ipv6CidrBlock)
	a.RuleAction, b.RuleAction = strings.ToLower(a.RuleAction), strings.ToLower(b.RuleAction)
	return err == nil && reflect.DeepEqual(a, b)
}

// masked returns a range as AWS writes it.
func masked(cidr *string) *string {
	if cidr == nil {
		return nil
	}
	prefix, err := netip.ParsePrefix(*cidr)
	if err != nil {
		return cidr
	}
	return aws.String(prefix.Masked().String())
}

func (e entry) protocol() string { return strconv.Itoa(int(e.Protocol)) }

func (e entry) icmp() *types.IcmpTypeCode {
	if e.Icmp == nil {
		return nil
	}
	return &types.IcmpTypeCode{Code: e.Icmp.Code, Type: e.Icmp.Type}
}

func (e entry) ports() *types.PortRange {
	if e.PortRange == nil {
		return nil
	}
	return &types.PortRange{From: e.PortRange.From, To: e.PortRange.To}
}

func (n networkACLEntries) Read(ctx context.Context, config aws.Config, identifier string) (*Resource, error) {
	acl, number, egress, err := splitEntry(identifier)
	if err != nil {
		return nil, err
	}
	entries, err := n.entries(ctx, config, acl)
	for _, e := range entries {
		if aws.ToInt32(e.RuleNumber) == number && aws.ToBool(e.Egress) == egress {
			return &Resource{Identifier: identifier, Properties: entryProperties(acl, e)}, nil
		}
	}
	return nil, err
}

func entryProperties(acl string, e types.NetworkAclEntry) map[string]any {
	o := object{"NetworkAclId": acl, "RuleAction": string(e.RuleAction)}
	o.number("RuleNumber", e.RuleNumber)
	o.flag("Egress", e.Egress)
	o.text("CidrBlock", e.CidrBlock)
	o.text("Ipv6CidrBlock", e.Ipv6CidrBlock)
	if protocol, err := strconv.ParseInt(aws.ToString(e.Protocol), 10, 32); err == nil {
		o["Protocol"] = protocol
	}
	if e.IcmpTypeCode != nil {
		icmp := object{}
		icmp.number("Code", e.IcmpTypeCode.Code)
		icmp.number("Type", e.IcmpTypeCode.Type)
		o["Icmp"] = map[string]any(icmp)
	}
	if e.PortRange != nil {
		ports := object{}
		ports.number("From", e.PortRange.From)
		ports.number("To", e.PortRange.To)
		o["PortRange"] = map[string]any(ports)
	}
	return o
}

func (networkACLEntries) Update(ctx context.Context, config aws.Config, _ string, desired map[string]any) error {
	e, err := parseEntry(desired)
	if err != nil {
		return err
	}
	_, err = ec2.NewFromConfig(config).ReplaceNetworkAclEntry(ctx, &ec2.ReplaceNetworkAclEntryInput{
		NetworkAclId: &e.NetworkAclId, RuleNumber: aws.Int32(int32(e.RuleNumber)), Egress: &e.Egress, Protocol: aws.String(e.protocol()),
		RuleAction: types.RuleAction(strings.ToLower(e.RuleAction)),
		CidrBlock:  e.CidrBlock, Ipv6CidrBlock: e.Ipv6CidrBlock, IcmpTypeCode: e.icmp(), PortRange: e.ports(),
	})
	return err
}

func (networkACLEntries) Delete(ctx context.Context, config aws.Config, identifier string) error {
	acl, number, egress, err := splitEntry(identifier)
	if err != nil {
		return err
	}
	_, err = ec2.NewFromConfig(config).DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{NetworkAclId: &acl, RuleNumber: &number, Egress: &egress})
	if hasCode(err, "InvalidNetworkAclEntry.NotFound", "InvalidNetworkAclID.NotFound") {
		return nil
	}
	return err
}
