package awscloud

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
)

const vpc = "AWS::EC2::VPC"

func vpcOf(mark string) map[string]any {
	return map[string]any{"CidrBlock": "10.30.0.0/16", "Tags": []any{map[string]any{"Key": "mark", "Value": mark}}}
}

// marked returns how many VPCs have a mark, as EC2 says.
func marked(t *testing.T, cloud *Cloud, mark string) int {
	t.Helper()
	found, err := cloud.Find(t.Context(), vpc, "mark", mark)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func TestRepeatedClientTokens(t *testing.T) {
	cases := map[string]struct {
		repeat Repeat
		// advance is how much time passes in between.
		advance time.Duration
		// code is the error of the second call; empty if it has the first one's event or another.
		code, message string
		same          bool
		vpcs          int
	}{
		"the same event": {repeat: RepeatAnswersEvent, same: true, vpcs: 1},
		"a conflict":     {repeat: RepeatConflicts, code: "ClientTokenConflictException", vpcs: 1},
		"a conflict that names a token": {repeat: RepeatNamesRequest, code: "ClientTokenConflictException",
			message: "is already associated with an existing operation with RequestToken", vpcs: 1},
		"another request":                {repeat: RepeatBegins, vpcs: 2},
		"the same event after 35 hours":  {repeat: RepeatAnswersEvent, advance: 35 * time.Hour, same: true, vpcs: 1},
		"another request after 36 hours": {repeat: RepeatAnswersEvent, advance: 36 * time.Hour, vpcs: 2},
	}
	cloud := start(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := newAPI(t, cloud)
			cloud.SetRepeat(tc.repeat)
			token := strings.ReplaceAll(name, " ", "-")
			first, err := api.begin(vpc, vpcOf(token), token)
			api.succeed(first, err)
			cloud.Advance(tc.advance)
			second, err := api.begin(vpc, vpcOf(token), token)
			if tc.code != "" {
				if codeOf(err) != tc.code || !strings.Contains(err.Error(), tc.message) {
					t.Errorf("the error is %v", err)
				}
			} else {
				api.succeed(second, err)
				if same := *first.RequestToken == *second.RequestToken; same != tc.same {
					t.Errorf("the event is of the same request: %t", same)
				}
			}
			if n := marked(t, cloud, token); n != tc.vpcs {
				t.Errorf("there are %d VPCs, not %d", n, tc.vpcs)
			}
		})
	}
}

func TestATokenOfAnotherRequestConflicts(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	api.succeed(api.begin(vpc, vpcOf("other-request"), "other-request"))
	_, err := api.begin(vpc, vpcOf("changed"), "other-request")
	if e := (*types.ClientTokenConflictException)(nil); !errors.As(err, &e) {
		t.Errorf("the error is %v", err)
	}
}

func TestLostAnswers(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	for name, fault := range map[string]Fault{
		"lost request": {Operation: CreateResource, Type: vpc, LoseRequest: true},
		"lost answer":  {Operation: CreateResource, Type: vpc, LoseAnswer: true},
		"skipped":      {Operation: CreateResource, Type: vpc, Skip: 1, Error: Throttling},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.ClearFaults()
			cloud.Inject(fault)
			token := strings.ReplaceAll(name, " ", "-")
			_, err := api.begin(vpc, vpcOf(token), token)
			if (err == nil) != (fault.Skip > 0) || codeOf(err) != "" {
				t.Errorf("the first error is %v", err)
			}
			event, err := api.begin(vpc, vpcOf(token), token)
			if fault.Skip > 0 {
				if e := (*types.ThrottlingException)(nil); !errors.As(err, &e) {
					t.Errorf("the second error is %v", err)
				}
				event, err = api.begin(vpc, vpcOf(token), token)
			}
			api.succeed(event, err)
			if n := marked(t, cloud, token); n != 1 {
				t.Errorf("there are %d VPCs", n)
			}
		})
	}
}

func TestErrorsAreTyped(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	id := api.create(vpc, vpcOf("typed"))
	defer api.delete(vpc, id)
	cases := map[string]struct {
		code string
		call func() error
	}{
		"an unknown property": {"ValidationException", func() error {
			_, err := api.begin(vpc,
				map[string]any{"Cidr": "x"}, "")
			return err
		}},
		"an unknown nested one": {"ValidationException", func() error {
			_, err := api.begin(vpc, map[string]any{"Tags": []any{map[string]any{"Name": "x"}}}, "")
			return err
		}},
		"a missing one": {"ValidationException", func() error {
			_, err := api.begin("AWS::EC2::Subnet",
				map[string]any{}, "")
			return err
		}},
		"a wrong type": {"ValidationException", func() error {
			_, err := api.begin(vpc,
				map[string]any{"CidrBlock": true}, "")
			return err
		}},
		"a read-only one": {"InvalidRequestException", func() error {
			_, err := api.begin(vpc,
				map[string]any{"VpcId": "vpc-1"}, "")
			return err
		}},
		"a read-only patch": {"ValidationException", func() error {
			_, err := api.beginUpdate(vpc, id, `[{"op":"replace","path":"/VpcId","value":"vpc-1"}]`)
			return err
		}},
		"a create-only patch": {"NotUpdatableException", func() error {
			_, err := api.beginUpdate(vpc, id, `[{"op":"replace","path":"/CidrBlock","value":"10.31.0.0/16"}]`)
			return err
		}},
		"a patch without parent": {"ValidationException", func() error {
			_, err := api.beginUpdate(vpc, id, `[{"op":"add","path":"/None/A","value":1}]`)
			return err
		}},
		"an unknown type": {"TypeNotFoundException", func() error {
			_, err := api.get("AWS::EC2::Nothing",
				"x")
			return err
		}},
		"an unknown resource": {"ResourceNotFoundException", func() error {
			_, err := api.get(vpc,
				"vpc-0123456789abcdef0")
			return err
		}},
		"an update of nothing": {"ResourceNotFoundException", func() error { _, err := api.beginUpdate(vpc, "vpc-0123456789abcdef0", `[]`); return err }},
		"a type without an update": {"UnsupportedActionException", func() error {
			_, err := api.beginUpdate("AWS::EC2::SubnetRouteTableAssociation", "x", `[]`)
			return err
		}},
		"a list without its model": {"InvalidRequestException", func() error {
			_, err := api.client.ListResources(context.Background(),
				&cloudcontrol.ListResourcesInput{TypeName: aws.String("AWS::EKS::Nodegroup")})
			return err
		}},
		"an unknown request": {"RequestTokenNotFoundException", func() error {
			_, err := api.client.GetResourceRequestStatus(context.Background(),
				&cloudcontrol.GetResourceRequestStatusInput{RequestToken: aws.String("none")})
			return err
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.call(); codeOf(err) != tc.code {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestRequestsTakeTime(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	cloud.SetDuration(vpc, "", time.Hour)
	event, err := api.begin(vpc, vpcOf("slow"), "")
	if err != nil {
		t.Fatal(err)
	}
	status := func() *types.ProgressEvent {
		t.Helper()
		answer, err := api.client.GetResourceRequestStatus(t.Context(),
			&cloudcontrol.GetResourceRequestStatusInput{RequestToken: event.RequestToken})
		if err != nil {
			t.Fatal(err)
		}
		return answer.ProgressEvent
	}
	cloud.effects.Wait()
	running := status()
	if running.OperationStatus != types.OperationStatusInProgress || running.RetryAfter == nil || running.Identifier == nil {
		t.Errorf("the event is %+v", running)
	}
	_, err = api.beginUpdate(vpc, *running.Identifier, `[{"op":"add","path":"/EnableDnsHostnames","value":true}]`)
	if e := (*types.ConcurrentOperationException)(nil); !errors.As(err, &e) {
		t.Errorf("an update meanwhile: %v", err)
	}
	cloud.Advance(time.Hour)
	if end := status(); end.OperationStatus != types.OperationStatusSuccess || end.ResourceModel == nil {
		t.Errorf("the event is %+v", end)
	}
	cloud.SetDuration(vpc, "", 0)
	api.delete(vpc, *running.Identifier)

	cloud.Advance(requestLife)
	if _, err := api.client.GetResourceRequestStatus(t.Context(),
		&cloudcontrol.GetResourceRequestStatusInput{RequestToken: event.RequestToken}); codeOf(err) != "RequestTokenNotFoundException" {
		t.Errorf("after seven days: %v", err)
	}
}

func TestFailedCreationsLeaveResources(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	for name, tc := range map[string]struct {
		outcome    Outcome
		identifier bool
		vpcs       int
	}{
		"with an identifier":    {Outcome{Code: "NotStabilized", Effect: true}, true, 1},
		"without an identifier": {Outcome{Code: "NotStabilized", Effect: true, HideIdentifier: true}, false, 1},
		"nothing":               {Outcome{Code: "ServiceLimitExceeded"}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.Inject(Fault{Operation: CreateResource, Outcome: &tc.outcome})
			end := api.wait(api.begin(vpc, vpcOf(name), ""))
			if end.OperationStatus != types.OperationStatusFailed || string(end.ErrorCode) != tc.outcome.Code {
				t.Errorf("it ended %s %s", end.OperationStatus, end.ErrorCode)
			}
			if (end.Identifier != nil) != tc.identifier {
				t.Errorf("the identifier is %v", aws.ToString(end.Identifier))
			}
			if n := marked(t, cloud, name); n != tc.vpcs {
				t.Errorf("there are %d VPCs, not %d", n, tc.vpcs)
			}
		})
	}
}

func TestNativeDriftIsReadAndUndone(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	id := api.create(vpc, vpcOf("before"))
	if _, err := cloud.Native(t.Context(), "ec2", "CreateTags", map[string]string{"ResourceId.1": id,
		"Tag.1.Key": "mark", "Tag.1.Value": "drifted"}); err != nil {
		t.Fatal(err)
	}
	tags := Found{Properties: api.read(vpc, id)}.Tags()
	if len(tags) != 1 || tags["mark"] != "drifted" {
		t.Errorf("after a native change, a read shows the tags %v", tags)
	}
	api.update(vpc, id, `[{"op":"replace","path":"/Tags/0/Value","value":"before"}]`)
	if n := marked(t, cloud, "before"); n != 1 {
		t.Errorf("the patch did not reach EC2: %d VPCs have the tag", n)
	}
	if _, err := cloud.Native(t.Context(), "ec2", "DeleteVpc", map[string]string{"VpcId": id}); err != nil {
		t.Fatal(err)
	}
	if api.exists(vpc, id) {
		t.Error("it can be read after a native deletion")
	}
	if end := api.wait(api.beginDelete(vpc, id)); end.ErrorCode != types.HandlerErrorCodeNotFound {
		t.Errorf("its deletion ended %s %s", end.OperationStatus, end.ErrorCode)
	}
}

func TestExistingNamesAreRefused(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	if _, err := cloud.Native(t.Context(), "iam", "CreateRole", map[string]string{"RoleName": "native-role",
		"AssumeRolePolicyDocument": trust}); err != nil {
		t.Fatal(err)
	}
	end := api.wait(api.begin("AWS::IAM::Role", map[string]any{"RoleName": "native-role",
		"AssumeRolePolicyDocument": map[string]any{}}, ""))
	if end.ErrorCode != types.HandlerErrorCodeAlreadyExists {
		t.Errorf("the creation ended %s %s %s", end.OperationStatus, end.ErrorCode, aws.ToString(end.StatusMessage))
	}
	// A resource that was created natively is adopted.
	api.update("AWS::IAM::Role", "native-role", `[{"op":"add","path":"/MaxSessionDuration","value":7200}]`)
	found, err := cloud.Describe(t.Context(), "AWS::IAM::Role", "native-role")
	if err != nil || found == nil || found.Properties["MaxSessionDuration"] != 7200.0 {
		t.Errorf("after an update, IAM has %v, %v", found, err)
	}
	api.delete("AWS::IAM::Role", "native-role")
}

func TestDependenciesBlockDeletions(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	id := api.create(vpc, vpcOf("depended"))
	subnet := api.create("AWS::EC2::Subnet", map[string]any{"VpcId": id, "CidrBlock": "10.30.1.0/24"})
	end := api.wait(api.beginDelete(vpc, id))
	if end.OperationStatus != types.OperationStatusFailed || !strings.Contains(aws.ToString(end.StatusMessage), "has dependencies and cannot be deleted") {
		t.Errorf("the deletion ended %s %s %s", end.OperationStatus, end.ErrorCode, aws.ToString(end.StatusMessage))
	}
	api.delete("AWS::EC2::Subnet", subnet)
	api.delete(vpc, id)

	bucket := api.create("AWS::S3::Bucket", map[string]any{"BucketName": "full-bucket"})
	if err := cloud.NativeREST(t.Context(), "s3", "PUT", "/full-bucket/object", "", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if end := api.wait(api.beginDelete("AWS::S3::Bucket",
		bucket)); !strings.Contains(aws.ToString(end.StatusMessage), "not empty") {
		t.Errorf("the deletion ended %s %s %s", end.OperationStatus, end.ErrorCode, aws.ToString(end.StatusMessage))
	}
	if err := cloud.NativeREST(t.Context(), "s3", "DELETE", "/full-bucket/object", "", nil); err != nil {
		t.Fatal(err)
	}
	api.delete("AWS::S3::Bucket", bucket)
}

func TestWriteOnlyPropertiesAreLostIfAPatchLacksThem(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	const db = "AWS::RDS::DBInstance"
	id := api.create(db, map[string]any{
		"DBInstanceIdentifier": "write-only", "Engine": "postgres", "DBInstanceClass": "db.t3.micro", "AllocatedStorage": "20",
		"MasterUsername": "owner", "MasterUserPassword": "a-password",
	})
	defer api.delete(db, id)
	if _, ok := api.read(db, id)["MasterUserPassword"]; ok {
		t.Error("a read shows the password")
	}
	api.update(db, id, `[{"op":"add","path":"/DBInstanceClass","value":"db.t3.small"},{"op":"add","path":"/MasterUserPassword","value":"b-password"}]`)
	if got := cloud.Sent(db, id)["MasterUserPassword"]; got != "b-password" {
		t.Errorf("after a patch with the password it is %v", got)
	}
	api.update(db, id, `[{"op":"add","path":"/DBInstanceClass","value":"db.t3.medium"}]`)
	if got := cloud.Sent(db, id)["MasterUserPassword"]; got != nil {
		t.Errorf("after a patch without the password it is %v", got)
	}
}

func TestReadsLag(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	cloud.SetReadLag(time.Hour)
	id := api.create(vpc, vpcOf("lag"))
	if api.exists(vpc, id) || api.listed(vpc, nil)[id] {
		t.Error("it is there at once")
	}
	cloud.Advance(time.Hour)
	if !api.exists(vpc, id) || !api.listed(vpc, nil)[id] {
		t.Error("it is not there after the lag")
	}
	api.delete(vpc, id)
	if !api.exists(vpc, id) {
		t.Error("it is gone at once")
	}
	cloud.Advance(time.Hour)
	if api.exists(vpc, id) {
		t.Error("it is there after the lag")
	}
}

func TestCallsAreCounted(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	id := api.create(vpc, vpcOf("counted"))
	cloud.ResetCalls()
	api.read(vpc, id)
	api.listed(vpc, nil)
	if _, err := cloud.Find(t.Context(), vpc, "", ""); err != nil {
		t.Fatal(err)
	}
	if n := cloud.Count(GetResource, vpc); n != 1 {
		t.Errorf("%d reads were counted", n)
	}
	if n := len(cloud.Calls()); n != 2 {
		t.Errorf("%d calls were counted", n)
	}
	api.delete(vpc, id)
}

func TestRequestsAreListedAndCancelled(t *testing.T) {
	cloud := start(t)
	api := newAPI(t, cloud)
	cloud.SetDuration("", "", time.Hour)
	event, err := api.begin(vpc, vpcOf("cancelled"), "")
	if err != nil {
		t.Fatal(err)
	}
	cancelled, err := api.client.CancelResourceRequest(t.Context(),
		&cloudcontrol.CancelResourceRequestInput{RequestToken: event.RequestToken})
	if err != nil || cancelled.ProgressEvent.OperationStatus != types.OperationStatusCancelComplete {
		t.Errorf("cancelled: %+v, %v", cancelled, err)
	}
	list, err := api.client.ListResourceRequests(t.Context(), &cloudcontrol.ListResourceRequestsInput{
		MaxResults:                  aws.Int32(1),
		ResourceRequestStatusFilter: &types.ResourceRequestStatusFilter{OperationStatuses: []types.OperationStatus{types.OperationStatusCancelComplete}},
	})
	if err != nil || len(list.ResourceRequestStatusSummaries) != 1 || *list.ResourceRequestStatusSummaries[0].RequestToken != *event.RequestToken {
		t.Errorf("listed: %+v, %v", list, err)
	}
}

func TestNamesBelongToAnAccountAndRegion(t *testing.T) {
	cloud := start(t)
	here := newAPI(t, cloud)
	config := cloud.Config()
	config.Region = "eu-west-1"
	there := api{t, cloudcontrol.NewFromConfig(config, func(o *cloudcontrol.Options) { o.Retryer = aws.NopRetryer{} })}
	config.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "111122223333", SecretAccessKey: "test"}, nil
	})
	other := api{t, cloudcontrol.NewFromConfig(config, func(o *cloudcontrol.Options) { o.Retryer = aws.NopRetryer{} })}
	for typeName, properties := range map[string]map[string]any{
		"AWS::SNS::Topic":      {"TopicName": "same-name"},
		"AWS::SQS::Queue":      {"QueueName": "same-name"},
		"AWS::Logs::LogGroup":  {"LogGroupName": "same-name"},
		"AWS::Kinesis::Stream": {"Name": "same-name", "ShardCount": 1},
	} {
		t.Run(typeName, func(t *testing.T) {
			id := here.create(typeName, properties)
			defer here.delete(typeName, id)
			end := here.wait(here.begin(typeName, properties, ""))
			if end.ErrorCode != types.HandlerErrorCodeAlreadyExists {
				t.Errorf("the second creation ended %s %s", end.OperationStatus, end.ErrorCode)
			}
			if there.listed(typeName, nil)[id] {
				t.Error("another region has it")
			}
			for name, api := range map[string]api{"another region": there, "another account": other} {
				same := api.create(typeName, properties)
				if !api.exists(typeName, same) {
					t.Errorf("%s does not have its own", name)
				}
				api.delete(typeName, same)
			}
			if !here.exists(typeName, id) {
				t.Error("it was deleted elsewhere")
			}
		})
	}
}
