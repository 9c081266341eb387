package cloudcontrol

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// AWS has refused a call because its token was used before. That was our own call, and its answer was lost: the
// operation is continued if it is found.
func (c *client) afterConflict(ctx context.Context, i external.Intent, conflict error) (external.Op, error) {
	if found := usedToken.FindStringSubmatch(messageOf(conflict)); found != nil {
		event, err := c.status(ctx, found[1])
		if err != nil {
			return external.Op{}, c.readError("get the status of the request of", err)
		}
		if c.isOperation(i, event) {
			return c.toOp(resume{verb: i.Verb, since: c.options.Now()}, event), nil
		}
	}
	event, mayRun, err := c.findRequest(ctx, i)
	switch {
	case err != nil:
		return external.Op{}, err
	case event != nil:
		return c.toOp(resume{verb: i.Verb, since: c.options.Now()}, *event), nil
	case mayRun:
		return external.Op{Err: &external.OpError{
			Code: codeTokenConflict, Message: "the call was received before, and its operation might still run", RetryAfter: concurrentDelay,
		}}, nil
	}
	out := c.callError(i.Verb, conflict)
	out.Class, out.Mismatch = external.Rejected, true
	if i.Verb == external.Delete {
		out.Class = external.Failed // the next attempt must use another token
	}
	return external.Op{Err: out, Done: out.Class == external.Failed}, nil
}

func (c *client) isOperation(i external.Intent, event types.ProgressEvent) bool {
	id := external.Ref(aws.ToString(event.Identifier))
	switch {
	case aws.ToString(event.TypeName) != c.Type.Name, event.Operation != operations[i.Verb]:
		return false
	case i.Verb == external.Create && c.caps.Naming == external.CallerAssigned:
		return id == "" || string(id) == i.Key.Name
	case i.Verb == external.Create:
		return true
	}
	return id == "" || id == i.Ref
}

const (
	// maxRequestPages bounds a search in the requests of an account.
	maxRequestPages = 10
	requestsOfPage  = 100
)

// It searches the latest requests of the account. A creation of a resource without an identity is recognized by our
// mark in its model. MayRun reports whether an operation that runs may be it.
func (c *client) findRequest(ctx context.Context, i external.Intent) (found *types.ProgressEvent, mayRun bool, err error) {
	input := &cloudcontrol.ListResourceRequestsInput{
		MaxResults: aws.Int32(requestsOfPage),
		ResourceRequestStatusFilter: &types.ResourceRequestStatusFilter{
			Operations:        []types.Operation{operations[i.Verb]},
			OperationStatuses: []types.OperationStatus{types.OperationStatusPending, types.OperationStatusInProgress, types.OperationStatusSuccess},
		},
	}
	for range maxRequestPages {
		if err := c.account.Limiter.Wait(ctx, reads); err != nil {
			return nil, false, err
		}
		page, err := c.account.API.ListResourceRequests(ctx, input)
		c.account.Limiter.Report(err)
		if err != nil {
			return nil, false, c.readError("list the requests of", err)
		}
		for _, event := range page.ResourceRequestStatusSummaries {
			if !c.isOperation(i, event) {
				continue
			}
			runs := event.OperationStatus != types.OperationStatusSuccess
			switch {
			case i.Verb != external.Create, c.caps.Naming == external.CallerAssigned:
				if runs && aws.ToString(event.Identifier) != "" {
					return &event, false, nil
				}
				mayRun = mayRun || runs
			case c.isMarked(event, i.Mark):
				return &event, false, nil
			case runs && aws.ToString(event.ResourceModel) == "" && c.options.Now().Sub(aws.ToTime(event.EventTime)) < time.Hour:
				mayRun = true
			}
		}
		if input.NextToken = page.NextToken; aws.ToString(page.NextToken) == "" {
			break
		}
	}
	return nil, mayRun, nil
}

func (c *client) isMarked(event types.ProgressEvent, mark external.Mark) bool {
	properties, err := model.Decode([]byte(aws.ToString(event.ResourceModel)))
	return err == nil && c.caps.Marked && mark.Is(c.mark(properties))
}
