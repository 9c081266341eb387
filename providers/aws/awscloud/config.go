package awscloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Config returns the configuration of clients of the cloud, in the default account and region.
func (c *Cloud) Config() aws.Config {
	return aws.Config{
		Region: c.region, BaseEndpoint: aws.String(c.Endpoint),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
}
