package awscloud

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// storageReaders are the types of S3, RDS and DynamoDB.
var storageReaders = map[string]reader{
	"AWS::S3::Bucket": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			return from.rest(ctx, "s3", http.MethodGet, "/"+identifier+"?versioning")
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.rest(ctx, "s3", http.MethodGet, "/")
			if err != nil {
				return nil, err
			}
			return texts(answer.get("Buckets"), "Name"), nil
		},
		covers: []string{"Tags", "VersioningConfiguration"}, more: bucketConfiguration, complete: completeBucket, blocked: bucketNotEmpty,
	},
	"AWS::RDS::DBInstance": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.query(ctx, "rds", "DescribeDBInstances",
				map[string]string{"DBInstanceIdentifier": identifier})
			if err != nil {
				return nil, err
			}
			return first(answer.get("DescribeDBInstancesResult", "DBInstances"), identifier)
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.query(ctx, "rds", "DescribeDBInstances", nil)
			if err != nil {
				return nil, err
			}
			return texts(answer.get("DescribeDBInstancesResult", "DBInstances"), "DBInstanceIdentifier"), nil
		},
		aliases: map[string]string{
			"Tags": "TagList", "EnableIAMDatabaseAuthentication": "IAMDatabaseAuthenticationEnabled",
			"EnablePerformanceInsights": "PerformanceInsightsEnabled", "EnableCloudwatchLogsExports": "EnabledCloudwatchLogsExports",
		},
		covers: []string{"Tags"},
		more: func(_ context.Context, _ caller, _ string, description *node, out map[string]any) error {
			setList(out, "VPCSecurityGroups", texts(description.get("VpcSecurityGroups"), "VpcSecurityGroupId"))
			for property, path := range map[string][]string{"DBSubnetGroupName": {"DBSubnetGroup",
				"DBSubnetGroupName"}, "Port": {"Endpoint", "Port"}} {
				if v := description.get(path...).text; v != "" {
					out[property] = v
				}
			}
			return nil
		},
	},
	"AWS::RDS::DBSubnetGroup": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.query(ctx, "rds", "DescribeDBSubnetGroups",
				map[string]string{"DBSubnetGroupName": identifier})
			if err != nil {
				return nil, err
			}
			return first(answer.get("DescribeDBSubnetGroupsResult", "DBSubnetGroups"), identifier)
		},
		covers: []string{"Tags"},
		more: func(ctx context.Context, from caller, _ string, description *node, out map[string]any) error {
			setList(out, "SubnetIds", texts(description.get("Subnets"), "SubnetIdentifier"))
			tags, err := from.query(ctx, "rds", "ListTagsForResource",
				map[string]string{"ResourceName": description.get("DBSubnetGroupArn").text})
			if err != nil {
				return err
			}
			setTags(out, tags.get("ListTagsForResourceResult", "TagList"))
			return nil
		},
	},
	"AWS::DynamoDB::Table": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.call(ctx, "dynamodb", "DynamoDB_20120810.DescribeTable",
				map[string]string{"TableName": identifier})
			if err != nil {
				return nil, err
			}
			return answer.get("Table"), nil
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.call(ctx, "dynamodb", "DynamoDB_20120810.ListTables", map[string]string{})
			if err != nil {
				return nil, err
			}
			return texts(answer.get("TableNames")), nil
		},
		aliases: map[string]string{"Arn": "TableArn", "StreamArn": "LatestStreamArn"}, covers: []string{"Tags"},
		more: func(ctx context.Context, from caller, _ string, description *node, out map[string]any) error {
			if mode := description.get("BillingModeSummary", "BillingMode").text; mode != "" {
				out["BillingMode"] = mode
				if mode == "PAY_PER_REQUEST" {
					out["ProvisionedThroughput"] = nil
				}
			}
			tags, err := from.call(ctx, "dynamodb", "DynamoDB_20120810.ListTagsOfResource",
				map[string]string{"ResourceArn": description.get("TableArn").text})
			if err != nil {
				return err
			}
			setTags(out, tags.get("Tags"))
			return nil
		},
	},
}

// first returns the only item of a list.
func first(list *node, identifier string) (*node, error) {
	if len(list.items) == 0 {
		return nil, missing(identifier)
	}
	return list.items[0], nil
}

func bucketConfiguration(ctx context.Context, from caller, identifier string, versioning *node,
	out map[string]any) error {
	if status := versioning.get("Status").text; status != "" {
		out["VersioningConfiguration"] = map[string]any{"Status": status}
	}
	tags, err := from.rest(ctx, "s3", http.MethodGet, "/"+url.PathEscape(identifier)+"?tagging")
	if err != nil && !isNotFound(err) {
		return err
	}
	if err == nil {
		setTags(out, tags.get("TagSet"))
	}
	block, err := from.rest(ctx, "s3", http.MethodGet, "/"+url.PathEscape(identifier)+"?publicAccessBlock")
	if err != nil {
		if isNotFound(err) {
			return nil
		}
		return err
	}
	flags := map[string]any{}
	for name, field := range block.fields {
		if v, err := strconv.ParseBool(field.text); err == nil {
			flags[name] = v
		}
	}
	if len(flags) > 0 {
		out["PublicAccessBlockConfiguration"] = flags
	}
	return nil
}

func bucketNotEmpty(ctx context.Context, from caller, identifier string, _ map[string]any) error {
	answer, err := from.rest(ctx, "s3", http.MethodGet, "/"+url.PathEscape(identifier)+"?list-type=2&max-keys=1")
	if err != nil {
		return err
	}
	if answer.fields["Contents"] != nil {
		return &failure{"GeneralServiceException",
			"The bucket you tried to delete is not empty (Service: S3, Status Code: 409, BucketNotEmpty)"}
	}
	return nil
}

// completeBucket sets tags and the block of public access.
func completeBucket(ctx context.Context, from caller, identifier string, properties map[string]any) error {
	bucket := "/" + url.PathEscape(identifier)
	tags, ok := properties["Tags"].([]any)
	method, body := http.MethodDelete, []byte(nil)
	if ok && len(tags) > 0 {
		var document struct {
			XMLName struct{}                      `xml:"Tagging"`
			Tags    []struct{ Key, Value string } `xml:"TagSet>Tag"`
		}
		for _, tag := range tags {
			document.Tags = append(document.Tags, struct{ Key, Value string }{text(value(tag, []string{"Key"})),
				text(value(tag, []string{"Value"}))})
		}
		raw, err := xml.Marshal(document)
		if err != nil {
			return err
		}
		method, body = http.MethodPut, raw
	}
	if _, err := from.rest(ctx, "s3", method, bucket+"?tagging", body...); err != nil {
		return err
	}
	block, ok := properties["PublicAccessBlockConfiguration"].(map[string]any)
	if !ok {
		_, err := from.rest(ctx, "s3", http.MethodDelete, bucket+"?publicAccessBlock")
		return err
	}
	var document strings.Builder
	document.WriteString("<PublicAccessBlockConfiguration>")
	for _, name := range slices.Sorted(maps.Keys(block)) {
		fmt.Fprintf(&document, "<%s>%v</%s>", name, block[name], name)
	}
	document.WriteString("</PublicAccessBlockConfiguration>")
	_, err := from.rest(ctx, "s3", http.MethodPut, bucket+"?publicAccessBlock", []byte(document.String())...)
	return err
}
