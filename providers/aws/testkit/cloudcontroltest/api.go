package cloudcontroltest

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
)

type options = func(*cloudcontrol.Options)

// errLost is the answer of a call whose answer is lost.
var errLost = errors.New("the connection was closed before the answer")

// begin counts a call, and returns the error of a fault. The lock is held until the returned function is called.
func (c *Cloud) begin(ctx context.Context, operation string) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return func() {}, err
	}
	c.mu.Lock()
	c.calls[operation]++
	switch {
	case c.fault.Refuse:
		err = &types.ServiceInternalErrorException{Message: aws.String("The service is unavailable")}
	case c.fault.Throttle:
		err = &types.ThrottlingException{Message: aws.String("Rate exceeded")}
	default:
		c.settle()
	}
	return c.mu.Unlock, err
}

func (c *Cloud) change(ctx context.Context, name string, r *call) (*types.ProgressEvent, error) {
	end, err := c.begin(ctx, name)
	defer end()
	if err != nil {
		return nil, err
	}
	event, err := c.start(r)
	if c.fault.LoseAnswer {
		return nil, errLost
	}
	return event, err
}

// CreateResource begins a creation.
func (c *Cloud) CreateResource(ctx context.Context, in *cloudcontrol.CreateResourceInput, _ ...options) (*cloudcontrol.CreateResourceOutput, error) {
	event, err := c.change(ctx, "CreateResource", &call{token: aws.ToString(in.ClientToken), operation: types.OperationCreate, typeName: *in.TypeName,
		body: *in.DesiredState})
	if err != nil {
		return nil, err
	}
	return &cloudcontrol.CreateResourceOutput{ProgressEvent: event}, nil
}

// UpdateResource begins an update.
func (c *Cloud) UpdateResource(ctx context.Context, in *cloudcontrol.UpdateResourceInput, _ ...options) (*cloudcontrol.UpdateResourceOutput, error) {
	event, err := c.change(ctx, "UpdateResource", &call{token: aws.ToString(in.ClientToken), operation: types.OperationUpdate, typeName: *in.TypeName,
		id: *in.Identifier, body: *in.PatchDocument})
	if err != nil {
		return nil, err
	}
	return &cloudcontrol.UpdateResourceOutput{ProgressEvent: event}, nil
}

// DeleteResource begins a deletion.
func (c *Cloud) DeleteResource(ctx context.Context, in *cloudcontrol.DeleteResourceInput, _ ...options) (*cloudcontrol.DeleteResourceOutput, error) {
	event, err := c.change(ctx, "DeleteResource", &call{token: aws.ToString(in.ClientToken), operation: types.OperationDelete, typeName: *in.TypeName,
		id: *in.Identifier})
	if err != nil {
		return nil, err
	}
	return &cloudcontrol.DeleteResourceOutput{ProgressEvent: event}, nil
}

// GetResource reads a resource.
func (c *Cloud) GetResource(ctx context.Context, in *cloudcontrol.GetResourceInput, _ ...options) (*cloudcontrol.GetResourceOutput, error) {
	end, err := c.begin(ctx, "GetResource")
	defer end()
	if err != nil {
		return nil, err
	}
	r := c.resources[*in.TypeName+" "+*in.Identifier]
	if !c.isVisible(r) {
		return nil, &types.InvalidRequestException{Message: aws.String("Resource was not found (HandlerErrorCode: NotFound)")}
	}
	return &cloudcontrol.GetResourceOutput{TypeName: in.TypeName, ResourceDescription: &types.ResourceDescription{
		Identifier: in.Identifier, Properties: aws.String(encode(c.readable(r))),
	}}, nil
}

// ListResources lists resources, ten a page.
func (c *Cloud) ListResources(ctx context.Context, in *cloudcontrol.ListResourcesInput, _ ...options) (*cloudcontrol.ListResourcesOutput, error) {
	end, err := c.begin(ctx, "ListResources")
	defer end()
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	if in.ResourceModel != nil {
		given = decode(*in.ResourceModel)
	}
	t := c.types[*in.TypeName]
	if s := t.Handlers["list"].HandlerSchema; s != nil {
		for _, name := range s.Required {
			if given[name] == nil {
				return nil, &types.InvalidRequestException{Message: aws.String("Missing or invalid ResourceModel property: " + name)}
			}
		}
	}
	var all []types.ResourceDescription
	for _, key := range slices.Sorted(maps.Keys(c.resources)) {
		r := c.resources[key]
		if r.Type != *in.TypeName || !c.isVisible(r) || !matches(r.Properties, given) {
			continue
		}
		properties := c.readable(r)
		if c.ListOmitsTags {
			delete(properties, "Tags")
		}
		all = append(all, types.ResourceDescription{Identifier: aws.String(r.ID), Properties: aws.String(encode(properties))})
	}
	const page = 10
	out := &cloudcontrol.ListResourcesOutput{TypeName: in.TypeName}
	from := 0
	if in.NextToken != nil {
		from = len(*in.NextToken)
	}
	to := min(len(all), from+page)
	out.ResourceDescriptions = all[min(from, to):to]
	if to < len(all) {
		out.NextToken = aws.String(string(make([]byte, to)))
	}
	return out, nil
}

func matches(properties, given map[string]any) bool {
	for name, value := range given {
		if encode(properties[name]) != encode(value) {
			return false
		}
	}
	return true
}

// GetResourceRequestStatus returns the progress of a request.
func (c *Cloud) GetResourceRequestStatus(ctx context.Context, in *cloudcontrol.GetResourceRequestStatusInput,
	_ ...options) (*cloudcontrol.GetResourceRequestStatusOutput, error) {
	end, err := c.begin(ctx, "GetResourceRequestStatus")
	defer end()
	if err != nil {
		return nil, err
	}
	r := c.requests[*in.RequestToken]
	if r == nil {
		return nil, &types.RequestTokenNotFoundException{Message: aws.String("The request token is unknown")}
	}
	return &cloudcontrol.GetResourceRequestStatusOutput{ProgressEvent: c.event(r)}, nil
}

// ListResourceRequests lists the requests, in one page.
func (c *Cloud) ListResourceRequests(ctx context.Context, in *cloudcontrol.ListResourceRequestsInput,
	_ ...options) (*cloudcontrol.ListResourceRequestsOutput, error) {
	end, err := c.begin(ctx, "ListResourceRequests")
	defer end()
	if err != nil {
		return nil, err
	}
	out := &cloudcontrol.ListResourceRequestsOutput{}
	for _, token := range slices.Sorted(maps.Keys(c.requests)) {
		event := c.event(c.requests[token])
		if f := in.ResourceRequestStatusFilter; f == nil || slices.Contains(f.Operations, event.Operation) &&
			slices.Contains(f.OperationStatuses, event.OperationStatus) {
			out.ResourceRequestStatusSummaries = append(out.ResourceRequestStatusSummaries, *event)
		}
	}
	return out, nil
}
