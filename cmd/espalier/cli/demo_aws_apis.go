package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
)

// The demo's region and credentials, which the test cloud does not check.
const (
	demoRegion    = "us-east-1"
	demoAccessKey = "test"
)

// awsAPIs are AWS's APIs as another client than the controllers uses them. What exists is read with
// the APIs of its services, and not with the Cloud Control API, which the controllers use.
type awsAPIs struct {
	endpoint string
	config   awssdk.Config
}

func newAWSAPIs(endpoint string) awsAPIs {
	return awsAPIs{endpoint, awssdk.Config{
		Region: demoRegion, BaseEndpoint: &endpoint,
		Credentials: awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
			return awssdk.Credentials{AccessKeyID: demoAccessKey, SecretAccessKey: demoAccessKey}, nil
		}),
	}}
}

// scale sets the number of nodes of the example's node group.
func (a awsAPIs) scale(ctx context.Context, name string, nodes int) error {
	client := cloudcontrol.NewFromConfig(a.config)
	typeName, id := "AWS::EKS::Nodegroup", name+"/"+name
	patch := fmt.Sprintf(`[{"op":"replace","path":"/ScalingConfig/DesiredSize","value":%d}]`, nodes)
	out, err := client.UpdateResource(ctx, &cloudcontrol.UpdateResourceInput{TypeName: &typeName, Identifier: &id, PatchDocument: &patch})
	if err != nil {
		return err
	}
	waiter := cloudcontrol.NewResourceRequestSuccessWaiter(client, func(o *cloudcontrol.ResourceRequestSuccessWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
	})
	return waiter.Wait(ctx, &cloudcontrol.GetResourceRequestStatusInput{RequestToken: out.ProgressEvent.RequestToken}, time.Minute)
}

// nodes returns the number of nodes that the example's node group is to have, as EKS says.
func (a awsAPIs) nodes(ctx context.Context, name string) (int, error) {
	raw, err := a.call(ctx, "eks", http.MethodGet, "/clusters/"+name+"/node-groups/"+name, nil)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Nodegroup struct{ ScalingConfig struct{ DesiredSize int } }
	}
	return answer.Nodegroup.ScalingConfig.DesiredSize, json.Unmarshal(raw, &answer)
}

// awaitNodes waits until the node group is to have a number of nodes.
func (a awsAPIs) awaitNodes(ctx context.Context, name string, nodes int) error {
	for {
		is, err := a.nodes(ctx, name)
		if err != nil || is == nodes {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// countLeft counts the resources of the example that EC2, EKS and IAM have.
func (a awsAPIs) countLeft(ctx context.Context, name string) (int, error) {
	var clusters struct{ Clusters []string }
	raw, err := a.call(ctx, "eks", http.MethodGet, "/clusters", nil)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(raw, &clusters); err != nil {
		return 0, err
	}
	count := len(clusters.Clusters)
	for _, action := range []string{"DescribeVpcs", "DescribeSubnets"} {
		var answer struct {
			VPCs    []struct{} `xml:"vpcSet>item"`
			Subnets []struct{} `xml:"subnetSet>item"`
		}
		err := a.query(ctx, "ec2", url.Values{
			"Action": {action}, "Version": {"2016-11-15"}, "Filter.1.Name": {"tag:Name"}, "Filter.1.Value.1": {name + "*"},
		}, &answer)
		if err != nil {
			return 0, err
		}
		count += len(answer.VPCs) + len(answer.Subnets)
	}
	var answer struct {
		Names []string `xml:"ListRolesResult>Roles>member>RoleName"`
	}
	if err := a.query(ctx, "iam", url.Values{"Action": {"ListRoles"}, "Version": {"2010-05-08"}}, &answer); err != nil {
		return 0, err
	}
	for _, role := range answer.Names {
		if strings.HasPrefix(role, name+"-") {
			count++
		}
	}
	return count, nil
}

func (a awsAPIs) query(ctx context.Context, service string, form url.Values, into any) error {
	raw, err := a.call(ctx, service, http.MethodPost, "/", []byte(form.Encode()))
	if err != nil {
		return err
	}
	return xml.Unmarshal(raw, into)
}

// call calls the API of a service, of the query protocol if there is a body.
func (a awsAPIs) call(ctx context.Context, service, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	credentials, err := a.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, request, hex.EncodeToString(sum[:]), service, demoRegion, time.Now()); err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s %s of %s: %s: %s", method, path, service, response.Status, raw)
	}
	return raw, nil
}
