package awscloud

import (
	"context"
	"fmt"
	"strconv"
)

// messageReaders are the types of SNS and SQS.
var messageReaders = map[string]reader{
	"AWS::SNS::Topic": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.query(ctx, "sns", "GetTopicAttributes", map[string]string{"TopicArn": identifier})
			if err != nil {
				return nil, err
			}
			return entries(answer.get("GetTopicAttributesResult", "Attributes")), nil
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.query(ctx, "sns", "ListTopics", nil)
			if err != nil {
				return nil, err
			}
			return texts(answer.get("ListTopicsResult", "Topics"), "TopicArn"), nil
		},
		covers: []string{"Tags"},
		more: func(ctx context.Context, from caller, identifier string, _ *node, out map[string]any) error {
			out["TopicName"] = lastPart(identifier, ":")
			// Subscriptions are resources of their own; those in the topic's properties are not read.
			delete(out, "Subscription")
			tags, err := from.query(ctx, "sns", "ListTagsForResource", map[string]string{"ResourceArn": identifier})
			if err != nil {
				return err
			}
			setTags(out, tags.get("ListTagsForResourceResult", "Tags"))
			return nil
		},
		predict: func(from caller, account string, want map[string]any) (string, bool) {
			name, ok := want["TopicName"]
			return fmt.Sprintf("arn:aws:sns:%s:%s:%v", from.region, account, name), ok
		},
		identify: func(physical string, _ map[string]any) string { return physical },
	},
	"AWS::SQS::Queue": {
		read: func(ctx context.Context, from caller, identifier string) (*node, error) {
			answer, err := from.call(ctx, "sqs", "AmazonSQS.GetQueueAttributes",
				map[string]any{"QueueUrl": identifier, "AttributeNames": []string{"All"}})
			if err != nil {
				return nil, err
			}
			return answer.get("Attributes"), nil
		},
		list: func(ctx context.Context, from caller) ([]string, error) {
			answer, err := from.call(ctx, "sqs", "AmazonSQS.ListQueues", map[string]any{})
			if err != nil {
				return nil, err
			}
			return texts(answer.get("QueueUrls")), nil
		},
		aliases: map[string]string{"Arn": "QueueArn"}, covers: []string{"Tags"},
		more: func(ctx context.Context, from caller, identifier string, _ *node, out map[string]any) error {
			out["QueueUrl"], out["QueueName"] = identifier, lastPart(identifier, "/")
			tags, err := from.call(ctx, "sqs", "AmazonSQS.ListQueueTags", map[string]any{"QueueUrl": identifier})
			if err != nil {
				return err
			}
			setTags(out, tags.get("Tags"))
			return nil
		},
		predict: func(from caller, account string, want map[string]any) (string, bool) {
			name, ok := want["QueueName"]
			return fmt.Sprintf("%s/%s/%v", from.base, account, name), ok
		},
		identify: func(physical string, _ map[string]any) string { return physical },
	},
}

// entries returns a list of keys and values as an object.
func entries(list *node) *node {
	out := &node{fields: map[string]*node{}}
	for _, entry := range list.items {
		v := entry.get("value")
		if unquoted, err := strconv.Unquote(v.text); err == nil {
			v = &node{text: unquoted}
		}
		out.fields[entry.get("key").text] = v
	}
	return out
}
