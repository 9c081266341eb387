package hook

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/espalier-dev/espalier/providers/aws/response"
)

// Bounds of what EC2 returns for the resources of one request: AWS needs a few pages, and some kilobytes for each
// resource. The context bounds the time.
const (
	maxPages    = 20
	maxResponse = 4 << 20
)

// The client is for one call of readEC2. Its responses are limited together.
func newReader(config aws.Config) *ec2.Client {
	return ec2.NewFromConfig(config, func(o *ec2.Options) { o.HTTPClient = response.Limited(o.HTTPClient, maxResponse) })
}

// readEC2 reads resources by a filter for their identifiers: unlike the parameters for identifiers, a filter
// is no error if one of them does not exist. page returns a page of results; convert returns nil for a
// resource that is deleted. The error is a response.TooLargeError if fewer resources have to be requested.
func readEC2[T any](filter string, identifiers []string, page func(filters []types.Filter, token *string) ([]T, *string, error),
	convert func(T) (string, map[string]any)) (map[string]Resource, error) {
	out := map[string]Resource{}
	if len(identifiers) == 0 {
		return out, nil
	}
	filters := []types.Filter{{Name: &filter, Values: identifiers}}
	var token *string
	for range maxPages {
		found, next, err := page(filters, token)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if identifier, properties := convert(one); properties != nil && slices.Contains(identifiers, identifier) {
				out[identifier] = Resource{Identifier: identifier, Properties: properties}
			}
		}
		if token = next; aws.ToString(token) == "" {
			return out, nil
		}
	}
	return nil, fmt.Errorf("the response to a request for %d resources has more than %d pages; check spec.endpoint of the provider configuration",
		len(identifiers), maxPages)
}

type object map[string]any

func (o object) text(name string, value *string) {
	if value != nil {
		o[name] = *value
	}
}

func (o object) flag(name string, value *bool) {
	if value != nil {
		o[name] = *value
	}
}

func (o object) number(name string, value *int32) {
	if value != nil {
		o[name] = int64(*value)
	}
}

func (o object) texts(name string, values []string) {
	list := make([]any, 0, len(values))
	for _, value := range values {
		list = append(list, value)
	}
	o[name] = list
}

func (o object) tags(tags []types.Tag) {
	list := []any{}
	for _, tag := range tags {
		// The tags of AWS itself cannot be set, and Cloud Control does not return them.
		if !strings.HasPrefix(aws.ToString(tag.Key), "aws:") {
			list = append(list, map[string]any{"Key": aws.ToString(tag.Key), "Value": aws.ToString(tag.Value)})
		}
	}
	o["Tags"] = list
}

func hasCode(err error, codes ...string) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	for _, code := range codes {
		if api.ErrorCode() == code {
			return true
		}
	}
	return false
}
