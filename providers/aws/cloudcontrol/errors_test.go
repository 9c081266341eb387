package cloudcontrol

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	"github.com/aws/smithy-go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func newClient(t *testing.T, typeName string) *client {
	t.Helper()
	typ, err := catalog.Get(typeName)
	if err != nil {
		t.Fatal(err)
	}
	return &client{Kind: NewKind(typ, hook.Hooks{}, Options{}), account: &Account{}, object: &unstructured.Unstructured{Object: map[string]any{}}}
}

func TestErrorsOfCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		class external.Class
		retry bool
	}{
		"a request that is not valid":             {&types.InvalidRequestException{Message: aws.String("no")}, external.Rejected, false},
		"a resource that exists":                  {&types.AlreadyExistsException{}, external.Rejected, false},
		"too many calls":                          {&types.ThrottlingException{}, external.Rejected, true},
		"another operation runs":                  {&types.ConcurrentOperationException{}, external.Rejected, true},
		"a type that the region does not have":    {&types.TypeNotFoundException{}, external.Rejected, false},
		"an internal error":                       {&types.ServiceInternalErrorException{}, external.Ambiguous, false},
		"a failure of the network":                {errors.New("connection reset"), external.Ambiguous, false},
		"an error of no known kind":               {&types.GeneralServiceException{Message: aws.String("Rate exceeded")}, external.Ambiguous, true},
		"credentials that are not valid":          {&smithy.GenericAPIError{Code: "UnrecognizedClientException", Fault: smithy.FaultClient}, external.Rejected, false},
		"an error of the server of no known kind": {&smithy.GenericAPIError{Code: "SomethingElse", Fault: smithy.FaultServer}, external.Ambiguous, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := newClient(t, "AWS::EC2::VPC").callError(external.Create, tc.err)
			if got.Class != tc.class || (got.RetryAfter > 0) != tc.retry {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestFailedRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		typ      string
		verb     external.Verb
		event    types.ProgressEvent
		class    external.Class
		ref      external.Ref
		mismatch bool
	}{
		"a failed creation has left a resource":                    {"AWS::EC2::VPC", external.Create, types.ProgressEvent{ErrorCode: "NotStabilized", Identifier: aws.String("vpc-1")}, external.Failed, "vpc-1", false},
		"a creation failed before it began":                        {"AWS::EC2::VPC", external.Create, types.ProgressEvent{ErrorCode: "InvalidRequest"}, external.Rejected, "", false},
		"tags show what an internal failure has left":              {"AWS::EC2::VPC", external.Create, types.ProgressEvent{ErrorCode: "InternalFailure"}, external.Failed, "", false},
		"nothing shows what an internal failure has left":          {"AWS::CloudFront::OriginAccessControl", external.Create, types.ProgressEvent{ErrorCode: "InternalFailure"}, external.Rejected, "", true},
		"another client's resource has the name":                   {"AWS::IAM::Role", external.Create, types.ProgressEvent{ErrorCode: "AlreadyExists", Identifier: aws.String("r")}, external.Rejected, "", false},
		"a failed creation may have met another client's resource": {"AWS::IAM::Role", external.Create, types.ProgressEvent{ErrorCode: "GeneralServiceException", Identifier: aws.String("r")}, external.Failed, "", false},
		"a failed update":   {"AWS::IAM::Role", external.Update, types.ProgressEvent{ErrorCode: "InvalidRequest", Identifier: aws.String("r")}, external.Failed, "r", false},
		"a failed deletion": {"AWS::IAM::Role", external.Delete, types.ProgressEvent{ErrorCode: "ResourceConflict", Identifier: aws.String("r")}, external.Failed, "r", false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.event.OperationStatus, tc.event.RequestToken = types.OperationStatusFailed, aws.String("y")
			c := newClient(t, tc.typ)
			got := c.toOp(resume{verb: tc.verb, since: c.options.Now()}, tc.event)
			if !got.Done || got.Err == nil || got.Err.Class != tc.class || got.Ref != tc.ref || got.Err.Mismatch != tc.mismatch {
				t.Errorf("got %+v, %+v", got, got.Err)
			}
		})
	}
}

func TestADeletionOfWhatIsGoneSucceeds(t *testing.T) {
	c := newClient(t, "AWS::IAM::Role")
	op := c.toOp(resume{verb: external.Delete, since: c.options.Now()}, types.ProgressEvent{OperationStatus: types.OperationStatusFailed, ErrorCode: "NotFound"})
	if !op.Done || op.Err != nil {
		t.Errorf("got %+v", op)
	}
}

func TestMessages(t *testing.T) {
	c := newClient(t, "AWS::EC2::VPC")
	for name, tc := range map[string]struct {
		verb          external.Verb
		code, message string
		want          string
	}{
		"AWS names no permission": {external.Delete, "AccessDenied", "Access denied", "Access denied (to delete AWS::EC2::VPC, the credentials need the IAM permissions ec2:DeleteVpc, "},
		"AWS names a permission":  {external.Delete, "AccessDenied", "User x is not authorized to perform: ec2:DeleteVpc", "(to delete AWS::EC2::VPC, the credentials also need the IAM permissions "},
		"another resource blocks": {external.Delete, "GeneralServiceException", "The vpc 'vpc-1' has dependencies and cannot be deleted. (DependencyViolation)", "other resources still use it: The vpc 'vpc-1' has dependencies"},
		"other messages stay":     {external.Create, "InvalidRequest", "The CIDR is invalid", "The CIDR is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.explained(tc.verb, tc.code, tc.message); !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if got := c.explained(external.Create, "X", strings.Repeat("é", 2000)); len(got) > maxMessage+5 {
		t.Errorf("the message has %d bytes", len(got))
	}
}

func TestResourcesThatAreNotFound(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{&types.ResourceNotFoundException{}, true},
		{&smithy.GenericAPIError{Code: "InvalidRequestException", Message: "Resource of type 'X' with identifier 'y' was not found. (HandlerErrorCode: NotFound)"}, true},
		{&smithy.GenericAPIError{Code: "InvalidRequestException", Message: "not found"}, false},
		{errors.New("HandlerErrorCode: NotFound"), false},
		{nil, false},
	} {
		if got := isNotFound(tc.err); got != tc.want {
			t.Errorf("%v: %t", tc.err, got)
		}
	}
}
