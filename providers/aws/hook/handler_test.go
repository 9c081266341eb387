package hook

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnAccessKeyIsCreatedOnce(t *testing.T) {
	keys := func(members string) string {
		return `<ListAccessKeysResponse><ListAccessKeysResult><AccessKeyMetadata>` + members + `</AccessKeyMetadata></ListAccessKeysResult></ListAccessKeysResponse>`
	}
	const (
		first   = `<member><UserName>u</UserName><AccessKeyId>AKIA1</AccessKeyId><Status>Active</Status></member>`
		second  = `<member><UserName>u</UserName><AccessKeyId>AKIA2</AccessKeyId><Status>Inactive</Status></member>`
		created = `<CreateAccessKeyResponse><CreateAccessKeyResult><AccessKey><UserName>u</UserName><AccessKeyId>AKIA2</AccessKeyId><Status>Active</Status><SecretAccessKey>s</SecretAccessKey></AccessKey></CreateAccessKeyResult></CreateAccessKeyResponse>`
	)
	h, ctx, desired := accessKeys{}, context.Background(), map[string]any{"UserName": "u"}
	f, config := newFake(t, map[string][]string{"ListAccessKeys": {keys(first)}, "CreateAccessKey": {created}})
	got, err := h.Create(ctx, config, desired, []string{"u|AKIA1"})
	if err != nil || got.Identifier != "u|AKIA2" || string(got.Connection["secretAccessKey"]) != "s" || string(got.Connection["accessKeyId"]) != "AKIA2" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got.Properties["SecretAccessKey"] != nil || f.called() != "ListAccessKeys CreateAccessKey" {
		t.Errorf("calls %s, properties %v", f.called(), got.Properties)
	}

	// The answer was lost: nothing is created again.
	f, config = newFake(t, map[string][]string{"ListAccessKeys": {keys(first + second)}})
	_, err = h.Create(ctx, config, desired, []string{"u|AKIA1"})
	var lost *LostError
	if !errors.As(err, &lost) || f.called() != "ListAccessKeys" || !cmp.Equal(lost.Candidates, []string{"u|AKIA2"}) ||
		!strings.Contains(err.Error(), "aws iam delete-access-key --user-name u --access-key-id AKIA2") || !strings.Contains(err.Error(), "external-name to u|AKIA2") {
		t.Errorf("calls %s, %v", f.called(), err)
	}

	read, err := h.Read(ctx, config, "u|AKIA2")
	if err != nil || read == nil || read.Properties["Status"] != "Inactive" || read.Properties["UserName"] != "u" || read.Properties["Id"] != "AKIA2" {
		t.Errorf("got %+v, %v", read, err)
	}
	if read, err := h.Read(ctx, config, "u|AKIA3"); read != nil || err != nil {
		t.Errorf("a missing key: %+v, %v", read, err)
	}
	f, config = newFake(t, map[string][]string{
		"ListAccessKeys": {fault("NoSuchEntity")}, "DeleteAccessKey": {fault("NoSuchEntity")}, "UpdateAccessKey": {`<UpdateAccessKeyResponse></UpdateAccessKeyResponse>`},
	})
	if read, err := h.Read(ctx, config, "u|AKIA3"); read != nil || err != nil {
		t.Errorf("a key of a missing user: %+v, %v", read, err)
	}
	if err := errors.Join(h.Delete(ctx, config, "u|AKIA2"), h.Update(ctx, config, "u|AKIA2", map[string]any{"Status": "Inactive"}), h.Update(ctx, config, "u|AKIA2", desired)); err != nil {
		t.Error(err)
	}
	if last := f.forms[len(f.forms)-1]; len(f.forms) != 3 || last.Get("Status") != "Inactive" || last.Get("AccessKeyId") != "AKIA2" || last.Get("UserName") != "u" {
		t.Errorf("calls %s with %v", f.called(), last)
	}
	if _, err := h.Create(ctx, config, map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "UserName") {
		t.Errorf("without a user: %v", err)
	}
}

func TestAnEntryOfANetworkACLIsKnownByItsNumber(t *testing.T) {
	const (
		acls = `<DescribeNetworkAclsResponse><networkAclSet><item><networkAclId>acl-1</networkAclId><entrySet>
			<item><ruleNumber>100</ruleNumber><protocol>6</protocol><ruleAction>allow</ruleAction><egress>true</egress><cidrBlock>10.9.0.0/16</cidrBlock></item>
			<item><ruleNumber>100</ruleNumber><protocol>6</protocol><ruleAction>allow</ruleAction><egress>false</egress><cidrBlock>10.0.0.0/8</cidrBlock><portRange><from>443</from><to>443</to></portRange></item>
			<item><ruleNumber>32767</ruleNumber><protocol>-1</protocol><ruleAction>deny</ruleAction><egress>false</egress><cidrBlock>0.0.0.0/0</cidrBlock></item>
			</entrySet></item></networkAclSet></DescribeNetworkAclsResponse>`
		done = `<Response><return>true</return></Response>`
	)
	h, ctx := networkACLEntries{}, context.Background()
	desired := properties(t, `{"NetworkAclId":"acl-1","RuleNumber":100,"Protocol":6,"RuleAction":"allow","CidrBlock":"10.1.0.0/8","PortRange":{"From":443,"To":443}}`)
	const id = "acl-1|100|false"
	if got := h.Identifier(desired) + h.Identifier(map[string]any{"NetworkAclId": "acl-1"}); got != id {
		t.Errorf("got identifier %q", got)
	}
	f, config := newFake(t, map[string][]string{
		"CreateNetworkAclEntry": {done, failure("NetworkAclEntryAlreadyExists")}, "DescribeNetworkAcls": {acls}, "ReplaceNetworkAclEntry": {done}, "DeleteNetworkAclEntry": {failure("InvalidNetworkAclEntry.NotFound")},
	})
	for _, call := range []string{"the first", "a repeated"} {
		if got, err := h.Create(ctx, config, desired, nil); err != nil || got.Identifier != id {
			t.Errorf("%s creation: %+v, %v", call, got, err)
		}
	}
	if form := f.forms[0]; form.Get("NetworkAclId") != "acl-1" || form.Get("RuleNumber") != "100" || form.Get("Egress") != "false" || form.Get("Protocol") != "6" || form.Get("PortRange.From") != "443" {
		t.Errorf("got %v", form)
	}
	other := properties(t, `{"NetworkAclId":"acl-1","RuleNumber":100,"Protocol":6,"RuleAction":"deny","CidrBlock":"10.0.0.0/8"}`)
	if _, err := h.Create(ctx, config, other, nil); !hasCode(err, "NetworkAclEntryAlreadyExists") {
		t.Errorf("an entry with other properties: %v", err)
	}
	read, err := h.Read(ctx, config, id)
	want := map[string]any{
		"NetworkAclId": "acl-1", "RuleNumber": int64(100), "Protocol": int64(6), "RuleAction": "allow", "Egress": false, "CidrBlock": "10.0.0.0/8",
		"PortRange": map[string]any{"From": int64(443), "To": int64(443)},
	}
	if err != nil || !cmp.Equal(want, read.Properties) {
		t.Errorf("got %v, %s", err, cmp.Diff(want, read.Properties))
	}
	if read, err := h.Read(ctx, config, "acl-1|101|false"); read != nil || err != nil {
		t.Errorf("a missing entry: %+v, %v", read, err)
	}
	if _, err := h.Read(ctx, config, "acl-1|100"); err == nil {
		t.Error("an invalid identifier is read")
	}
	if got, err := h.List(ctx, config, map[string]any{"NetworkAclId": "acl-1"}); err != nil || !cmp.Equal(got, []string{"acl-1|100|true", id}) {
		t.Errorf("got %q, %v", got, err)
	}
	if err := errors.Join(h.Update(ctx, config, id, other), h.Delete(ctx, config, id)); err != nil {
		t.Error(err)
	}
}
