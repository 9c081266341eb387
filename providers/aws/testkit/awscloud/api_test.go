package awscloud

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	"github.com/aws/smithy-go"
)

// shared is the cloud of this package's tests. Each test undoes what it changes.
var shared struct {
	once  sync.Once
	cloud *Cloud
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cloud != nil {
		shared.cloud.Stop()
	}
	os.Exit(code)
}

func start(t *testing.T) *Cloud {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs the test cloud, which is a process; not in -short")
	}
	shared.once.Do(func() { shared.cloud, shared.err = Run(context.Background(), Options{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		shared.cloud.ClearFaults()
		shared.cloud.change(func(b *behavior) { *b = behavior{} })
	})
	return shared.cloud
}

// api calls the Cloud Control API with the SDK.
type api struct {
	t      *testing.T
	client *cloudcontrol.Client
}

func newAPI(t *testing.T, cloud *Cloud) api {
	// A lost answer is for the test to see, not for the SDK to repeat.
	return api{t, cloudcontrol.NewFromConfig(cloud.Config(),
		func(o *cloudcontrol.Options) { o.Retryer = aws.NopRetryer{} })}
}

func (a api) wait(event *types.ProgressEvent, err error) *types.ProgressEvent {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for event.OperationStatus == types.OperationStatusInProgress || event.OperationStatus == types.OperationStatusPending {
		select {
		case <-poll.C:
		case <-a.t.Context().Done():
			a.t.Fatal("the request has not ended")
		}
		answer, err := a.client.GetResourceRequestStatus(context.Background(),
			&cloudcontrol.GetResourceRequestStatusInput{RequestToken: event.RequestToken})
		if err != nil {
			a.t.Fatal(err)
		}
		event = answer.ProgressEvent
	}
	return event
}

func (a api) succeed(event *types.ProgressEvent, err error) string {
	a.t.Helper()
	end := a.wait(event, err)
	if end.OperationStatus != types.OperationStatusSuccess {
		a.t.Fatalf("the request ended %s: %s: %s", end.OperationStatus, end.ErrorCode, aws.ToString(end.StatusMessage))
	}
	return aws.ToString(end.Identifier)
}

func (a api) begin(typeName string, properties map[string]any, token string) (*types.ProgressEvent, error) {
	raw, err := json.Marshal(properties)
	if err != nil {
		a.t.Fatal(err)
	}
	in := &cloudcontrol.CreateResourceInput{TypeName: &typeName, DesiredState: aws.String(string(raw))}
	if token != "" {
		in.ClientToken = &token
	}
	answer, err := a.client.CreateResource(context.Background(), in)
	if err != nil {
		return nil, err
	}
	return answer.ProgressEvent, nil
}

func (a api) create(typeName string, properties map[string]any) string {
	a.t.Helper()
	return a.succeed(a.begin(typeName, properties, ""))
}

func (a api) beginUpdate(typeName, identifier, patch string) (*types.ProgressEvent, error) {
	answer, err := a.client.UpdateResource(context.Background(),
		&cloudcontrol.UpdateResourceInput{TypeName: &typeName, Identifier: &identifier, PatchDocument: &patch})
	if err != nil {
		return nil, err
	}
	return answer.ProgressEvent, nil
}

func (a api) update(typeName, identifier, patch string) {
	a.t.Helper()
	a.succeed(a.beginUpdate(typeName, identifier, patch))
}

func (a api) refused(typeName, identifier, patch string) string {
	_, err := a.beginUpdate(typeName, identifier, patch)
	return codeOf(err)
}

func (a api) beginDelete(typeName, identifier string) (*types.ProgressEvent, error) {
	answer, err := a.client.DeleteResource(context.Background(),
		&cloudcontrol.DeleteResourceInput{TypeName: &typeName, Identifier: &identifier})
	if err != nil {
		return nil, err
	}
	return answer.ProgressEvent, nil
}

func (a api) delete(typeName, identifier string) {
	a.t.Helper()
	a.succeed(a.beginDelete(typeName, identifier))
}

func (a api) get(typeName, identifier string) (map[string]any, error) {
	answer, err := a.client.GetResource(context.Background(),
		&cloudcontrol.GetResourceInput{TypeName: &typeName, Identifier: &identifier})
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal([]byte(*answer.ResourceDescription.Properties), &out)
}

func (a api) read(typeName, identifier string) map[string]any {
	a.t.Helper()
	out, err := a.get(typeName, identifier)
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

func (a api) exists(typeName, identifier string) bool {
	a.t.Helper()
	_, err := a.get(typeName, identifier)
	if e := (*types.ResourceNotFoundException)(nil); errors.As(err, &e) {
		return false
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return true
}

func (a api) listed(typeName string, model map[string]any) map[string]bool {
	a.t.Helper()
	in := &cloudcontrol.ListResourcesInput{TypeName: &typeName}
	if len(model) > 0 {
		raw, err := json.Marshal(model)
		if err != nil {
			a.t.Fatal(err)
		}
		in.ResourceModel = aws.String(string(raw))
	}
	out := map[string]bool{}
	for pages := cloudcontrol.NewListResourcesPaginator(a.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(context.Background())
		if err != nil {
			if codeOf(err) != "UnsupportedActionException" {
				a.t.Error(err)
			}
			return out
		}
		for _, d := range page.ResourceDescriptions {
			out[*d.Identifier] = true
		}
	}
	return out
}

func codeOf(err error) string {
	if e := smithy.APIError(nil); errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}
