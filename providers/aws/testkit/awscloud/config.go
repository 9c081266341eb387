package awscloud

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/espalier-dev/espalier/providers/aws/response"
)

// Config returns the configuration of clients of the cloud, in the default account and region.
func (c *Cloud) Config() aws.Config {
	return aws.Config{
		Region: c.region, BaseEndpoint: aws.String(c.Endpoint), HTTPClient: response.WithBufferedBodies(http.DefaultClient),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
}
