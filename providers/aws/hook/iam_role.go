package hook

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// detachRole detaches a role from policies and instance profiles, whatever client has attached them, if the managed
// resource allows it: AWS deletes only roles that nothing is attached to. Each call does a page.
func detachRole(ctx context.Context, config aws.Config, t Target) (waiting string, err error) {
	if t.Annotations[AnnotationEmpty] != "true" {
		return "", nil
	}
	client, role := iam.NewFromConfig(config), &t.Identifier
	profiles, err := client.ListInstanceProfilesForRole(ctx, &iam.ListInstanceProfilesForRoleInput{RoleName: role})
	if hasCode(err, "NoSuchEntity") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, p := range profiles.InstanceProfiles {
		_, err := client.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{RoleName: role, InstanceProfileName: p.InstanceProfileName})
		if err != nil && !hasCode(err, "NoSuchEntity") {
			return "", err
		}
	}
	attached, err := client.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: role})
	if err != nil {
		return "", err
	}
	for _, p := range attached.AttachedPolicies {
		_, err := client.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: role, PolicyArn: p.PolicyArn})
		if err != nil && !hasCode(err, "NoSuchEntity") {
			return "", err
		}
	}
	inline, err := client.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: role})
	if err != nil {
		return "", err
	}
	for _, name := range inline.PolicyNames {
		_, err := client.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: role, PolicyName: &name})
		if err != nil && !hasCode(err, "NoSuchEntity") {
			return "", err
		}
	}
	if profiles.IsTruncated || attached.IsTruncated || inline.IsTruncated {
		return "the role is being detached from its policies and instance profiles", nil
	}
	return "", nil
}
