package awscloud

import (
	"context"
	"fmt"
	"slices"
)

// What is here refuses deletions that AWS refuses and the implementation's CloudFormation does not, by what native APIs
// describe. The texts are those of AWS.

// dependencyViolation is how EC2 refuses the deletion of something that is in use.
func dependencyViolation(format, identifier string) error {
	return &nativeError{code: "DependencyViolation", message: fmt.Sprintf(format, identifier)}
}

// subnetInUse refuses the deletion of a subnet with network interfaces.
func subnetInUse(ctx context.Context, from caller, identifier string, _ map[string]any) error {
	answer, err := from.query(ctx, "ec2", "DescribeNetworkInterfaces", nil)
	if err != nil {
		return err
	}
	if slices.Contains(texts(answer.get("networkInterfaceSet"), "subnetId"), identifier) {
		return dependencyViolation("The subnet '%s' has dependencies and cannot be deleted.", identifier)
	}
	return nil
}

// gatewayAttached refuses the deletion of an internet gateway that is attached to a VPC.
func gatewayAttached(ctx context.Context, from caller, identifier string, _ map[string]any) error {
	gateway, err := describe("DescribeInternetGateways", "InternetGatewayId", "internetGatewaySet")(ctx, from, identifier)
	if err != nil {
		return err
	}
	if len(gateway.get("attachmentSet").items) > 0 {
		return dependencyViolation("The internetGateway '%s' has dependencies and cannot be deleted.", identifier)
	}
	return nil
}

// groupReferenced refuses the deletion of a security group that rules of other groups name.
func groupReferenced(ctx context.Context, from caller, identifier string, _ map[string]any) error {
	answer, err := from.query(ctx, "ec2", "DescribeSecurityGroups", nil)
	if err != nil {
		return err
	}
	for _, group := range answer.get("securityGroupInfo").items {
		if group.get("groupId").text == identifier {
			continue
		}
		for _, list := range []string{"ipPermissions", "ipPermissionsEgress"} {
			if slices.Contains(group.get(list).texts("groupId"), identifier) {
				return dependencyViolation("resource %s has a dependent object", identifier)
			}
		}
	}
	return nil
}

// roleIsAttached refuses the deletion of a role that is in an instance profile, or that others have attached policies to: the
// handler detaches those that it has attached.
func roleIsAttached(ctx context.Context, from caller, identifier string, properties map[string]any) error {
	name := map[string]string{"RoleName": identifier}
	profiles, err := from.query(ctx, "iam", "ListInstanceProfilesForRole", name)
	if err != nil {
		return err
	}
	if len(profiles.get("ListInstanceProfilesForRoleResult", "InstanceProfiles").items) > 0 {
		return &nativeError{code: "DeleteConflict", message: "Cannot delete entity, must remove roles from instance profile first."}
	}
	attached, err := from.query(ctx, "iam", "ListAttachedRolePolicies", name)
	if err != nil {
		return err
	}
	own, _ := properties["ManagedPolicyArns"].([]any)
	for _, arn := range texts(attached.get("ListAttachedRolePoliciesResult", "AttachedPolicies"), "PolicyArn") {
		if !slices.Contains(own, any(arn)) {
			return &nativeError{code: "DeleteConflict", message: "Cannot delete entity, must detach all policies first."}
		}
	}
	return nil
}
