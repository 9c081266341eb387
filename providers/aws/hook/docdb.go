package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/docdb"
	"github.com/aws/aws-sdk-go-v2/service/docdb/types"
)

// docDBEngine is the engine of DocumentDB. It shares the API of RDS, which shows the clusters of all engines.
const docDBEngine = "docdb"

// In these states, which pass by themselves, DocumentDB refuses changes.
var docDBBusy = []string{
	"backing-up", "configuring-log-exports", "creating", "deleting", "maintenance", "migrating", "modifying", "rebooting", "renaming",
	"resetting-master-credentials", "starting", "stopping", "updating", "upgrading",
}

func isDocDBBusy(status *string) bool { return slices.Contains(docDBBusy, aws.ToString(status)) }

// The type has a field for each property. Secrets are not in its errors.
func decodeProperties[T any](properties map[string]any) (T, error) {
	var out T
	raw, err := json.Marshal(properties)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return out, fmt.Errorf("read the properties: %w", err)
	}
	return out, nil
}

// It is nil for no change.
func changed[T comparable](wanted, present *T) *T {
	if wanted == nil || present != nil && *wanted == *present {
		return nil
	}
	return wanted
}

// The case of the text has no meaning.
func changedText(wanted, present *string) *string {
	if wanted == nil || strings.EqualFold(*wanted, aws.ToString(present)) {
		return nil
	}
	return wanted
}

type docDBTag struct{ Key, Value string }

func docDBTags(tags []docDBTag) []types.Tag {
	var out []types.Tag
	for _, tag := range tags {
		out = append(out, types.Tag{Key: &tag.Key, Value: &tag.Value})
	}
	return out
}

// Tags that AWS sets are left out: no request may have them.
func readDocDBTags(ctx context.Context, client *docdb.Client, arn *string) ([]any, error) {
	found, err := client.ListTagsForResource(ctx, &docdb.ListTagsForResourceInput{ResourceName: arn})
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, tag := range found.TagList {
		if key := aws.ToString(tag.Key); !strings.HasPrefix(key, "aws:") {
			out = append(out, map[string]any{"Key": key, "Value": aws.ToString(tag.Value)})
		}
	}
	return out, nil
}

func writeDocDBTags(ctx context.Context, client *docdb.Client, arn *string, wanted []docDBTag) error {
	present, err := readDocDBTags(ctx, client, arn)
	if err != nil {
		return err
	}
	values, removed := map[string]string{}, []string{}
	for _, item := range present {
		key, value := text(item.(map[string]any), "Key"), text(item.(map[string]any), "Value")
		values[key] = value
		if !slices.ContainsFunc(wanted, func(tag docDBTag) bool { return tag.Key == key }) {
			removed = append(removed, key)
		}
	}
	added := slices.DeleteFunc(slices.Clone(wanted), func(tag docDBTag) bool {
		value, isSet := values[tag.Key]
		return isSet && value == tag.Value
	})
	if len(added) > 0 {
		if _, err := client.AddTagsToResource(ctx, &docdb.AddTagsToResourceInput{ResourceName: arn, Tags: docDBTags(added)}); err != nil {
			return err
		}
	}
	if len(removed) > 0 {
		_, err = client.RemoveTagsFromResource(ctx, &docdb.RemoveTagsFromResourceInput{ResourceName: arn, TagKeys: removed})
	}
	return err
}

func isZero(change any) bool { return reflect.ValueOf(change).IsZero() }

func errGone(identifier string) error {
	return errors.New(identifier + " does not exist any more")
}
