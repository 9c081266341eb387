package awscloud

import (
	"context"
	"encoding/json"
	"net/url"
)

// identityReaders are the types of IAM and KMS.
var identityReaders = map[string]reader{
	"AWS::IAM::Role": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.query(ctx, "iam", "GetRole", map[string]string{"RoleName": identifier})
			if err != nil {
				return nil, err
			}
			return answer.get("GetRoleResult", "Role"), nil
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.query(ctx, "iam", "ListRoles", nil)
			if err != nil {
				return nil, err
			}
			return texts(answer.get("ListRolesResult", "Roles"), "RoleName"), nil
		},
		covers: []string{"Tags", "ManagedPolicyArns", "Policies", "Description"}, more: rolePolicies, blocked: roleIsAttached,
	},
	"AWS::KMS::Key": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.call(ctx, "kms", "TrentService.DescribeKey", map[string]string{"KeyId": identifier})
			if err != nil {
				return nil, err
			}
			// The key is there for some more days.
			if answer.get("KeyMetadata", "KeyState").text == "PendingDeletion" {
				return nil, missing(identifier)
			}
			return answer.get("KeyMetadata"), nil
		},
		covers: []string{"Tags"},
		more: func(ctx context.Context, from caller, identifier string, _ *node, out map[string]any) error {
			tags, err := from.call(ctx, "kms", "TrentService.ListResourceTags", map[string]string{"KeyId": identifier})
			if err != nil {
				return err
			}
			setTags(out, tags.get("Tags"))
			policy, err := from.call(ctx, "kms", "TrentService.GetKeyPolicy", map[string]string{"KeyId": identifier, "PolicyName": "default"})
			if err != nil {
				return err
			}
			out["KeyPolicy"] = free(policy.get("Policy"))
			return nil
		},
	},
}

// rolePolicies reads the documents of a role, which IAM returns escaped as in a URL.
func rolePolicies(ctx context.Context, from caller, identifier string, description *node,
	out map[string]any) error {
	if document, ok := policyDocument(description.get("AssumeRolePolicyDocument").text); ok {
		out["AssumeRolePolicyDocument"] = document
	}
	name := map[string]string{"RoleName": identifier}
	attached, err := from.query(ctx, "iam", "ListAttachedRolePolicies", name)
	if err != nil {
		return err
	}
	setList(out, "ManagedPolicyArns", texts(attached.get("ListAttachedRolePoliciesResult",
		"AttachedPolicies"), "PolicyArn"))
	inline, err := from.query(ctx, "iam", "ListRolePolicies", name)
	if err != nil {
		return err
	}
	var policies []any
	for _, item := range inline.get("ListRolePoliciesResult", "PolicyNames").items {
		policy, err := from.query(ctx, "iam", "GetRolePolicy", map[string]string{"RoleName": identifier,
			"PolicyName": item.text})
		if err != nil {
			return err
		}
		document, _ := policyDocument(policy.get("GetRolePolicyResult", "PolicyDocument").text)
		policies = append(policies, map[string]any{"PolicyName": item.text, "PolicyDocument": document})
	}
	if len(policies) > 0 {
		out["Policies"] = policies
	}
	return nil
}

func policyDocument(escaped string) (any, bool) {
	plain, err := url.QueryUnescape(escaped)
	if err != nil {
		return nil, false
	}
	var document any
	if err := json.Unmarshal([]byte(plain), &document); err != nil {
		return nil, false
	}
	return document, true
}
