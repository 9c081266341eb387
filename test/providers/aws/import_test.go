package aws

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/existing"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// input are the parameters of a native call.
type input = map[string]any

// foreign is a resource that others have created: by a native call, and without a mark of a managed resource.
type foreign struct {
	typ, call string
	input     input
	// id is the identifier, or where it is in the answer if it begins with a point.
	id string
	// refersTo is the reference to the VPC that --tree makes.
	refersTo string
}

var foreigners = []foreign{
	{typ: "AWS::EC2::VPC", call: "ec2 CreateVpc", input: input{"CidrBlock": "10.60.0.0/16"}, id: ".vpc.vpcId"},
	{typ: "AWS::EC2::Subnet", call: "ec2 CreateSubnet", input: input{"VpcId": "${vpc}", "CidrBlock": "10.60.1.0/24"}, id: ".subnet.subnetId", refersTo: "VpcIdRef"},
	{typ: "AWS::EC2::RouteTable", call: "ec2 CreateRouteTable", input: input{"VpcId": "${vpc}"}, id: ".routeTable.routeTableId", refersTo: "VpcIdRef"},
	{typ: "AWS::EC2::SecurityGroup", call: "ec2 CreateSecurityGroup", input: input{"VpcId": "${vpc}", "GroupName": "foreign", "GroupDescription": "foreign"}, id: ".groupId", refersTo: "VpcIdRef"},
	{typ: "AWS::EC2::InternetGateway", call: "ec2 CreateInternetGateway", id: ".internetGateway.internetGatewayId"},
	{typ: "AWS::IAM::Role", call: "iam CreateRole", input: input{"RoleName": "foreign-role", "AssumeRolePolicyDocument": trustPolicy, "Description": "of others"}, id: "foreign-role"},
	{typ: "AWS::IAM::User", call: "iam CreateUser", input: input{"UserName": "foreign-user", "Tags.member.1.Key": "team", "Tags.member.1.Value": "one"}, id: "foreign-user"},
	{typ: "AWS::S3::Bucket", call: "s3 PUT /foreign-bucket", id: "foreign-bucket"},
	{typ: "AWS::SQS::Queue", call: "sqs AmazonSQS.CreateQueue", input: input{"QueueName": "foreign-queue", "Attributes": input{"VisibilityTimeout": "45"}, "tags": input{"team": "one"}}, id: ".QueueUrl"},
	{typ: "AWS::SNS::Topic", call: "sns CreateTopic", input: input{"Name": "foreign-topic", "Tags.member.1.Key": "team", "Tags.member.1.Value": "one"}, id: ".CreateTopicResult.TopicArn"},
	{typ: "AWS::DynamoDB::Table", call: "dynamodb DynamoDB_20120810.CreateTable", input: input{
		"TableName": "foreign-table", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": []any{input{"AttributeName": "id", "AttributeType": "S"}},
		"KeySchema": []any{input{"AttributeName": "id", "KeyType": "HASH"}},
	}, id: "foreign-table"},
	{typ: "AWS::KMS::Key", call: "kms TrentService.CreateKey", input: input{"Description": "of others", "Tags": []any{input{"TagKey": "team", "TagValue": "one"}}}, id: ".KeyMetadata.KeyId"},
	{typ: "AWS::Logs::LogGroup", call: "logs Logs_20140328.CreateLogGroup", input: input{"logGroupName": "foreign-log", "tags": input{"team": "one"}}, id: "foreign-log"},
	{typ: "AWS::SSM::Parameter", call: "ssm AmazonSSM.PutParameter", input: input{"Name": "foreign-parameter", "Type": "String", "Value": "one"}, id: "foreign-parameter"},
	{typ: "AWS::SecretsManager::Secret", call: "secretsmanager secretsmanager.CreateSecret", input: input{"Name": "foreign-secret", "SecretString": "hidden", "Description": "of others"}, id: ".ARN"},
	{typ: "AWS::ECR::Repository", call: "ecr AmazonEC2ContainerRegistry_V20150921.CreateRepository", input: input{"repositoryName": "foreign-repository"}, id: "foreign-repository"},
	{typ: "AWS::ECS::Cluster", call: "ecs AmazonEC2ContainerServiceV20141113.CreateCluster", input: input{"clusterName": "foreign-ecs", "tags": []any{input{"key": "team", "value": "one"}}}, id: "foreign-ecs"},
}

const trustPolicy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// create creates the resource, and its VPC if it is in one, and returns its identifier.
func (f foreign) create(t *testing.T) string {
	t.Helper()
	vpc := func(string, string) string { return foreigners[0].create(t) }
	path, isInAnswer := strings.CutPrefix(f.id, ".")
	if !isInAnswer {
		path = ""
	}
	id, err := cloud.Call(t.Context(), awscloud.NativeCall{Call: f.call, Input: f.input}, "", vpc, path)
	if err != nil {
		t.Fatal(err)
	}
	if !isInAnswer {
		return f.id
	}
	if id == "" {
		t.Fatalf("%s answers no identifier", f.call)
	}
	return id
}

// TestImport imports resources that others have created natively, with what they refer to: first they are observed, then
// managed with all policies. Neither changes anything.
func TestImport(t *testing.T) {
	for _, f := range foreigners {
		t.Run(f.typ, func(t *testing.T) {
			s := newSuite(t)
			id := f.create(t)
			before := native(t, f.typ, id)
			observed, _ := importOf(t, s, f.typ, id, false)
			if f.refersTo != "" {
				if own := observed[len(observed)-1]; len(observed) != 2 || field(own, "forProvider", f.refersTo) == nil {
					t.Errorf("%d objects are imported, and the last one's forProvider is %v", len(observed), field(own, "forProvider"))
				}
			}
			applyImported(t, s, observed)
			managed, notes := importOf(t, s, f.typ, id, true)
			if i := slices.IndexFunc(notes, func(n string) bool { return strings.Contains(n, "adopting it changes") }); i >= 0 {
				t.Error(notes[i])
			}
			applyImported(t, s, managed)
			checkAtRest(t, f.typ, id)
			for _, o := range managed {
				if n := calls(awscloud.UpdateResource, typeOf(t, o), identifier(o)); n > 0 {
					t.Errorf("%d updates of %s %s", n, o.GetKind(), identifier(o))
				}
			}
			if diff := cmp.Diff(before, native(t, f.typ, id)); diff != "" {
				t.Errorf("the import has changed it (-before +after):\n%s", diff)
			}
			orphan(t, s, managed)
			if diff := cmp.Diff(before, native(t, f.typ, id)); diff != "" {
				t.Errorf("the end of the management has changed it (-before +after):\n%s", diff)
			}
		})
	}
}

// importOf returns the objects that espalier aws import --tree prints, those that others refer to first, and what it remarks.
func importOf(t *testing.T, s suite.Suite, typ, id string, full bool) ([]*unstructured.Unstructured, []string) {
	t.Helper()
	r := existing.Reader{API: cloudcontrol.NewFromConfig(cloud.Config()), Config: cloud.Config(), Types: catalog.Get, Limit: 10}
	found, err := r.Read(t.Context(), existing.Selection{Type: typ, Identifiers: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	found, notes, err := r.Follow(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	result, err := manifest.For(found, manifest.Options{Namespace: s.NS, Full: full})
	if err != nil {
		t.Fatal(err)
	}
	return result.Objects, slices.Concat(notes, result.Notes)
}

// applyImported applies objects, and waits until they are as specified and name the resources that they have imported.
func applyImported(t *testing.T, s suite.Suite, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		applied, annotations := o.DeepCopy(), maps.Clone(o.GetAnnotations())
		annotations[resource.PollIntervalAnnotation] = poll.String()
		applied.SetAnnotations(annotations)
		if _, err := s.TryApply(t, applied); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects {
		if got := identifier(awaitSynced(t, s, typeOf(t, o), o.GetName())); got != identifier(o) {
			t.Errorf("%s %s has imported %s instead of %s", o.GetKind(), o.GetName(), got, identifier(o))
		}
	}
}

// orphan deletes objects, and keeps their resources.
func orphan(t *testing.T, s suite.Suite, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range slices.Backward(objects) {
		kind := o.GroupVersionKind()
		s.Patch(t, kind, s.NS, o.GetName(), `{"spec":{"deletionPolicy":"Orphan"}}`)
		s.Delete(t, kind, s.NS, o.GetName())
		s.AwaitGone(t, kind, s.NS, o.GetName())
	}
}

// typeOf is the type that an object's kind is made of, one of those that are imported.
func typeOf(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	for _, f := range foreigners {
		if kindOf(t, f.typ) == o.GroupVersionKind() {
			return f.typ
		}
	}
	t.Fatalf("%s is imported", o.GetKind())
	return ""
}

func field(o *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, append([]string{"spec"}, path...)...)
	return value
}
