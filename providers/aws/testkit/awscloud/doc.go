// Package awscloud is a test cloud: AWS's APIs on the loopback interface, for tests and demos of the AWS provider.
//
// Native APIs, such as EC2's, and CloudFormation are ministack, an implementation of AWS that is not ours, which
// hack/testcloud.sh installs. It has no usable Cloud Control API, so that is served here: each resource is a
// CloudFormation stack with one resource. Calls pass a proxy that counts them and makes them fail as
// tests want (Fault).
//
// Start starts a cloud for a test, Config configures clients of it, Find and Describe judge by the
// native APIs what a test has done, and Call does natively what others do. Lives has desired states, changes, drift and
// refused changes for types that are known to work.
//
// # What is ours and not AWS's
//
// The schemas are AWS's. The rest of the Cloud Control API is made after AWS's documentation and the
// reports of users:
//
//   - tokens, the times of requests and their expiry, conflicts, and when a request fails at once or later
//   - error codes of failed requests, which are derived from the messages of native APIs
//   - the check of desired states: unknown and missing properties, types and enums, but no patterns or conditions
//   - what a list returns (only identifiers, see SetFullLists), and the size of its pages
//   - a cancelled request, whose effect stays
//   - the refusal of names that exist, which CloudFormation in ministack overwrites; the identifier of a
//     Nodegroup, CLUSTER/NAME
//   - the refusal to delete a bucket with objects, a subnet with network interfaces, an attached internet
//     gateway, a security group that rules of others name, and a role that is in an instance profile or has
//     policies of others: what exists is read natively, the refusal is ours, since CloudFormation in ministack
//     deletes them. It refuses itself to delete a VPC with a subnet, a security group or a gateway
//   - tags and the block of public access of a Bucket, which CloudFormation in ministack ignores, and
//     which are set by S3's native API
//
// A resource appears, changes and disappears in native APIs at the beginning of a request, however long
// it takes. Native descriptions show tags of CloudFormation (aws:cloudformation:...), which are left
// out of reads. Defaults and computed values are ministack's. Not in ministack's CloudFormation, so
// that a creation fails: EC2 EIP and NatGateway, EKS Addon, IAM OIDCProvider. A resource that was
// created natively can be read and listed if its type is read natively, and changed or deleted if
// ministack can import it: Bucket, Queue, Topic, Table, Function, Role, KMS Key and Alias, LogGroup,
// Parameter; not VPC, Subnet, DBInstance, EKS Cluster or Distribution.
//
// # Native reads
//
// A read shows what a resource was created with and CloudFormation's attributes, and over these what
// native APIs return, so that a change behind the provider's back is seen:
//
//	AWS::EC2::VPC                   all but Ipv6CidrBlocks and VpcEncryptionControl; listed
//	AWS::EC2::Subnet                what DescribeSubnets has; listed
//	AWS::EC2::InternetGateway       all; listed
//	AWS::EC2::RouteTable            all; listed
//	AWS::EC2::SecurityGroup         all, rules with one source each; listed
//	AWS::EC2::VPCEndpoint           what DescribeVpcEndpoints has; listed
//	AWS::IAM::Role                  all; listed
//	AWS::KMS::Key                   what DescribeKey has, the policy and tags
//	AWS::S3::Bucket                 tags, versioning, the block of public access; listed
//	AWS::RDS::DBInstance            what DescribeDBInstances has; listed
//	AWS::RDS::DBSubnetGroup         all
//	AWS::DynamoDB::Table            what DescribeTable has, and tags; listed
//	AWS::EKS::Cluster               what DescribeCluster has, but logging; listed
//	AWS::EKS::Nodegroup             what DescribeNodegroup has
//	AWS::ECS::Cluster               what DescribeClusters has
//	AWS::CloudFront::Distribution   what GetDistribution has; listed
//	AWS::SNS::Topic                 what GetTopicAttributes has, but subscriptions, and tags; listed
//	AWS::SQS::Queue                 what GetQueueAttributes has, and tags; listed
//
// The 36 types of natives.yaml are read by the calls there, and not listed natively: lists have those that were created
// through the Cloud Control API. Together these are all types of Lives. Other types show what was stored, and no
// drift.
package awscloud
