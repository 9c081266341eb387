package catalog

import (
	"fmt"
	"strings"
)

// These types stand for other types, which the Cloud Control API does not serve.
var instead = map[string][]string{
	"AWS::Elasticsearch::Domain":          {"AWS::OpenSearchService::Domain"},
	"AWS::IAM::Policy":                    {"AWS::IAM::RolePolicy", "AWS::IAM::UserPolicy", "AWS::IAM::GroupPolicy"},
	"AWS::IAM::UserToGroupAddition":       {"AWS::IAM::User"},
	"AWS::KinesisAnalytics::Application":  {"AWS::KinesisAnalyticsV2::Application"},
	"AWS::RDS::DBSecurityGroup":           {"AWS::EC2::SecurityGroup"},
	"AWS::Redshift::ClusterSecurityGroup": {"AWS::EC2::SecurityGroup"},
	"AWS::Route53::RecordSetGroup":        {"AWS::Route53::RecordSet"},
	"AWS::SNS::TopicPolicy":               {"AWS::SNS::TopicInlinePolicy"},
	"AWS::SQS::QueuePolicy":               {"AWS::SQS::QueueInlinePolicy"},
	"AWS::WAF::WebACL":                    {"AWS::WAFv2::WebACL"},
}

// Instead returns what to use in the place of a type that is not served: nil for a served or an unknown type.
func Instead(name string) error {
	others := instead[name]
	if len(others) == 0 || Has(name) {
		return nil
	}
	list := strings.Join(others, ", ")
	if i := strings.LastIndex(list, ", "); i >= 0 {
		list = list[:i] + " or " + list[i+2:]
	}
	return fmt.Errorf("the Cloud Control API does not serve %s; use %s", name, list)
}
