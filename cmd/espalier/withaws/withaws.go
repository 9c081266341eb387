// Package withaws adds AWS's SDK to package cli. Import it for that effect.
package withaws

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/existing"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func init() {
	cli.LinkAWS(cli.AWS{
		Program: aws.Program,
		Provider: func(c server.AWSConfiguration) (managed.Provider, error) {
			return aws.Flags{TypesFile: c.TypesFile, LocalEndpoints: c.LocalEndpoints, NamespacedIdentity: c.NamespacedIdentity}.Provider()
		},
		Existing: read,
	})
}

// read reads resources with the credentials of the AWS tools.
func read(ctx context.Context, of cli.AWSResources) (found []manifest.Resource, notes []string, err error) {
	account, err := connect(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	r := existing.Reader{API: cloudcontrol.NewFromConfig(account), Config: account, Types: catalog.Get, Limit: of.Limit}
	found, err = r.Read(ctx, existing.Selection{Type: of.Type, Identifiers: of.Identifiers, Tags: of.Tags, ListWith: of.ListWith})
	if err != nil || !of.Tree {
		return found, nil, err
	}
	return r.Follow(ctx, found)
}

func connect(ctx context.Context, of cli.AWSResources) (none sdk.Config, err error) {
	var options []func(*config.LoadOptions) error
	if of.Region != "" {
		options = append(options, config.WithRegion(of.Region))
	}
	if of.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(of.Profile))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return none, fmt.Errorf("load the configuration of the AWS tools: %w", err)
	}
	if loaded.Region == "" {
		return none, cli.UsageError(errors.New("no region is configured; set --region"))
	}
	if _, err := loaded.Credentials.Retrieve(ctx); err != nil {
		return none, fmt.Errorf("no credentials from the environment, the files in ~/.aws or the machine's role; --profile names another profile: %w", err)
	}
	if of.Endpoint != "" {
		loaded.BaseEndpoint = sdk.String(of.Endpoint)
	}
	return loaded, nil
}
