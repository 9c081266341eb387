// Package live tests the AWS provider on a real account, for those who have one: eleven cheap types are created, changed,
// set back and deleted. It runs only with ESPALIER_AWS_LIVE=1, as make test-aws-live sets it, and never in CI.
//
// Credentials are those of AWS's default chain, the region is AWS_REGION. Everything has the tag espalier-live with
// the name of the run, and is deleted at the end by that tag. After a run that was killed, another one with
// ESPALIER_AWS_LIVE_RUN set to its name first deletes what it has left.
package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	aws "github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/providers/aws/account"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/existing"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// types are tested, in an order in which they can be deleted.
var types = []string{
	"AWS::EC2::SecurityGroup", "AWS::EC2::RouteTable", "AWS::EC2::Subnet", "AWS::EC2::InternetGateway", "AWS::EC2::VPC", "AWS::IAM::Role",
	"AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::SNS::Topic", "AWS::SSM::Parameter", "AWS::Logs::LogGroup",
}

// tag is on everything that the tests create.
const tag = "espalier-live"

// live is where the tests run.
var live struct {
	run      string
	endpoint string // of a test cloud instead of AWS
	config   awssdk.Config
	client   *cloudcontrol.Client
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("ESPALIER_AWS_LIVE") != "1" {
		fmt.Println("skipped: these tests use a real account of AWS; with ESPALIER_AWS_LIVE=1 and credentials they run (make test-aws-live)")
		return 0
	}
	if err := connect(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("run %s in %s: %d types, none of which costs anything while it is empty and unused; a run costs less than 0.01 USD\n",
		live.run, live.config.Region, len(types))
	if err := sweep(context.Background()); err != nil { // of an earlier run with this name
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	options := aws.Options{Account: account.Options{LocalEndpoints: live.endpoint != ""}}
	code := suite.Main(m, server.Options{Providers: []managed.Provider{aws.Provider(options)}}, nil)
	// The controllers have stopped, and create nothing again.
	if err := sweep(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%v\nThese resources have the tag %s=%s. Run the tests with ESPALIER_AWS_LIVE_RUN=%s to delete them.\n", err, tag, live.run, live.run)
		return 1
	}
	return code
}

func connect(ctx context.Context) error {
	live.endpoint = os.Getenv("ESPALIER_AWS_LIVE_ENDPOINT")
	if live.run = os.Getenv("ESPALIER_AWS_LIVE_RUN"); live.run == "" {
		live.run = strconv.FormatInt(time.Now().Unix(), 36)
	}
	var err error
	if live.config, err = config.LoadDefaultConfig(ctx); err != nil {
		return err
	}
	if live.config.Region == "" {
		return errors.New("AWS_REGION is not set, and the profile has no region")
	}
	if live.endpoint != "" {
		live.config.BaseEndpoint = &live.endpoint
	}
	if _, err := live.config.Credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("find credentials of AWS, such as AWS_PROFILE or AWS_ACCESS_KEY_ID: %w", err)
	}
	live.client = cloudcontrol.NewFromConfig(live.config)
	return nil
}

// sweep deletes everything with the run's tag.
func sweep(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	reader := existing.Reader{API: live.client, Types: catalog.Get, Limit: 1000}
	var errs []error
	for _, typeName := range types {
		found, err := reader.Read(ctx, existing.Selection{Type: typeName, Tags: map[string]string{tag: live.run}})
		if err != nil {
			errs = append(errs, fmt.Errorf("find what is left of %s: %w", typeName, err))
		}
		for _, r := range found {
			fmt.Println("deleting", typeName, r.Identifier)
			if err := remove(ctx, typeName, r.Identifier); err != nil {
				errs = append(errs, fmt.Errorf("delete %s %s: %w", typeName, r.Identifier, err))
			}
		}
	}
	return errors.Join(errs...)
}

func remove(ctx context.Context, typeName, identifier string) error {
	out, err := live.client.DeleteResource(ctx, &cloudcontrol.DeleteResourceInput{TypeName: &typeName, Identifier: &identifier})
	if err != nil {
		return err
	}
	return await(ctx, out.ProgressEvent.RequestToken)
}

// await waits for the success of a request.
func await(ctx context.Context, token *string) error {
	waiter := cloudcontrol.NewResourceRequestSuccessWaiter(live.client, func(o *cloudcontrol.ResourceRequestSuccessWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Second, 5*time.Second
	})
	return waiter.Wait(ctx, &cloudcontrol.GetResourceRequestStatusInput{RequestToken: token}, 5*time.Minute)
}

func isTested(typeName string) bool { return slices.Contains(types, typeName) }
