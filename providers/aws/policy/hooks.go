package policy

// OfHooks returns the actions that the hooks of a type need, beside those of the handlers in its schema.
func OfHooks(typeName string) []string { return ofHooks[typeName] }

var ofHooks = map[string][]string{
	"AWS::EC2::InternetGateway": {"ec2:DescribeInternetGateways"},
	"AWS::EC2::NatGateway":      {"ec2:DescribeNatGateways"},
	"AWS::EC2::RouteTable":      {"ec2:DescribeRouteTables"},
	"AWS::EC2::SecurityGroup":   {"ec2:DescribeSecurityGroups"},
	"AWS::EC2::Subnet":          {"ec2:DescribeSubnets"},
	"AWS::EC2::VPC":             {"ec2:DescribeVpcs"},
	"AWS::EC2::Volume":          {"ec2:CreateSnapshot", "ec2:CreateTags", "ec2:DescribeSnapshots"},
	"AWS::EKS::Nodegroup":       {"eks:DescribeCluster"},
	"AWS::IAM::Role": {"iam:DeleteRolePolicy", "iam:DetachRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListInstanceProfilesForRole",
		"iam:ListRolePolicies", "iam:RemoveRoleFromInstanceProfile"},
	"AWS::MSK::Cluster":           {"kafka:GetBootstrapBrokers"},
	"AWS::MSK::ServerlessCluster": {"kafka:GetBootstrapBrokers"},
	"AWS::RDS::DBCluster":         {"rds:CreateDBClusterSnapshot", "rds:DescribeDBClusterSnapshots"},
	"AWS::RDS::DBInstance":        {"rds:CreateDBSnapshot", "rds:DescribeDBSnapshots"},
	"AWS::S3::Bucket":             {"s3:DeleteObject", "s3:DeleteObjectVersion", "s3:ListBucketVersions"},
}
