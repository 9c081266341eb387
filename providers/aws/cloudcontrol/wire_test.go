package cloudcontrol

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/cloudcontrol"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// TestAnswersOnTheWire reads answers of the Cloud Control API with the SDK's client.
func TestAnswersOnTheWire(t *testing.T) {
	for name, tc := range map[string]struct {
		status     int
		header     map[string]string
		body       string
		notFound   bool
		throttled  bool
		class      external.Class
		retryAfter time.Duration
		code       string
	}{
		"a resource that does not exist":     {400, nil, `{"__type":"com.amazon.cloudapiservice#ResourceNotFoundException","Message":"no"}`, true, false, external.Rejected, 0, codeNotFound},
		"one that the handler has not found": {400, nil, `{"__type":"GeneralServiceException","Message":"x was not found (Service: Ec2, HandlerErrorCode: NotFound)"}`, true, false, external.Ambiguous, 0, codeGeneral},
		"throttling":                         {400, nil, `{"__type":"ThrottlingException","Message":"Rate exceeded"}`, false, true, external.Rejected, throttledDelay, "ThrottlingException"},
		"throttling with a delay":            {429, map[string]string{"Retry-After": "7"}, `{"__type":"ThrottlingException","Message":"Rate exceeded"}`, false, true, external.Rejected, 7 * time.Second, "ThrottlingException"},
		"a gateway that fails":               {502, nil, `<html>`, false, false, external.Ambiguous, 0, ""},
		"an internal error":                  {500, nil, `{"__type":"InternalFailure"}`, false, false, external.Ambiguous, 0, "InternalFailure"},
		"credentials without the permission": {400, nil, `{"__type":"AccessDeniedException","Message":"User x is not authorized to perform: cloudformation:CreateResource"}`, false, false, external.Rejected, 0, "AccessDeniedException"},
		"a token that was used":              {400, nil, `{"__type":"ClientTokenConflictException","Message":"used"}`, false, false, external.Rejected, 0, codeTokenConflict},
		"a token that names its operation":   {400, nil, `{"__type":"InvalidRequestException","Message":"ClientToken t is already associated with an existing operation with RequestToken abc-1"}`, false, false, external.Rejected, 0, codeTokenConflict},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				for key, value := range tc.header {
					w.Header().Set(key, value)
				}
				w.WriteHeader(tc.status)
				_, _ = fmt.Fprint(w, tc.body)
			}))
			defer server.Close()
			api := sdk.New(sdk.Options{BaseEndpoint: &server.URL, Region: "eu-west-1", Retryer: aws.NopRetryer{}, Credentials: aws.AnonymousCredentials{}})
			_, err := api.CreateResource(t.Context(), &sdk.CreateResourceInput{TypeName: aws.String("AWS::EC2::VPC"), DesiredState: aws.String("{}")})
			if err == nil {
				t.Fatal("there is no error")
			}
			got := newClient(t, "AWS::EC2::VPC").callError(external.Create, err)
			if isNotFound(err) != tc.notFound || isThrottled(err) != tc.throttled || got.Class != tc.class || got.RetryAfter != tc.retryAfter || tc.code != "" && got.Code != tc.code {
				t.Errorf("%v: not found %t, throttled %t, %+v", err, isNotFound(err), isThrottled(err), got)
			}
		})
	}
}
