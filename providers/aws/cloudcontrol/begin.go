package cloudcontrol

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// operations are Cloud Control's names of verbs.
var operations = map[external.Verb]types.Operation{
	external.Create: types.OperationCreate, external.Update: types.OperationUpdate, external.Delete: types.OperationDelete,
}

// Begin makes the one call of the intent.
func (c *client) Begin(ctx context.Context, _ *unstructured.Unstructured, i external.Intent) (external.Op, error) {
	document, err := c.document(i)
	if err != nil {
		return external.Op{Err: &external.OpError{Class: external.Rejected, Message: bounded(err.Error())}}, nil
	}
	if notReady := c.prepareDeletion(ctx, i); notReady != nil {
		return external.Op{Err: notReady}, nil
	}
	if err := c.account.Limiter.Wait(ctx, writes); err != nil {
		return external.Op{Err: notSent(err)}, nil
	}
	c.forgetReads(string(i.Ref))
	if i.Verb == external.Update {
		c.conditional = conditionalChanges(c.Type, document)
	}
	event, err := c.call(ctx, i, document)
	c.account.Limiter.Report(err)
	switch {
	case err != nil && codeOf(err) == codeTokenConflict:
		return c.afterConflict(ctx, i, err)
	case i.Verb == external.Delete && isNotFound(err):
		return external.Op{Done: true}, nil // an observation confirms it
	case err != nil:
		return external.Op{Err: c.callError(i.Verb, err)}, nil
	case event == nil || aws.ToString(event.RequestToken) == "":
		return external.Op{Err: &external.OpError{Message: "AWS has returned no request token"}}, nil
	}
	since := resume{verb: i.Verb, since: c.options.Now()}
	if i.Verb == external.Update && c.last != nil {
		since.step = c.last.step.Progress
	}
	op := c.toOp(since, *event)
	if op.Done {
		c.forgetReads(string(op.Ref))
	}
	return op, nil
}

// It is the desired state with our tags, or the patch.
func (c *client) document(i external.Intent) (string, error) {
	if i.Verb == external.Delete {
		return "", nil
	}
	r, err := c.storedRequest(i.Request)
	if err != nil {
		return "", err
	}
	if i.Verb == external.Update {
		return encode(r["patch"])
	}
	desired, ok := r["desired"].(map[string]any)
	if !ok {
		desired = map[string]any{} // nothing is specified
	}
	if c.caps.Marked && i.Mark.ID != "" {
		desired = c.tagged(desired, map[string]string{model.TagBinding: i.Mark.ID, model.TagOwner: i.Mark.Owner})
	}
	return encode(desired)
}

func encode(value any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return strings.TrimSpace(b.String()), err
}

// It runs the hook of the type, and returns why nothing can be deleted yet; nil if it can.
func (c *client) prepareDeletion(ctx context.Context, i external.Intent) *external.OpError {
	if i.Verb != external.Delete || c.hooks.BeforeDelete == nil {
		return nil
	}
	waiting, err := c.beforeDelete(ctx, i)
	if err != nil {
		waiting = "prepare the deletion: " + err.Error()
	}
	if waiting == "" {
		return nil
	}
	return &external.OpError{Class: external.Rejected, Message: c.redacted(waiting), RetryAfter: retryAfter(err)}
}

func (c *client) beforeDelete(ctx context.Context, i external.Intent) (waiting string, err error) {
	properties, found, err := c.readOne(ctx, string(i.Ref))
	if err != nil || !found {
		return "", err
	}
	return c.hooks.BeforeDelete(ctx, c.account.Config, c.target(string(i.Ref), properties))
}

func (c *client) call(ctx context.Context, i external.Intent, document string) (*types.ProgressEvent, error) {
	role, ref := optional(c.account.RoleARN), string(i.Ref)
	switch i.Verb {
	case external.Create:
		out, err := c.account.API.CreateResource(ctx, &cloudcontrol.CreateResourceInput{TypeName: &c.Type.Name, DesiredState: &document,
			ClientToken: &i.Token, RoleArn: role})
		if err != nil {
			return nil, err
		}
		return out.ProgressEvent, nil
	case external.Update:
		out, err := c.account.API.UpdateResource(ctx, &cloudcontrol.UpdateResourceInput{TypeName: &c.Type.Name, Identifier: &ref, PatchDocument: &document,
			ClientToken: &i.Token, RoleArn: role})
		if err != nil {
			return nil, err
		}
		return out.ProgressEvent, nil
	default:
		out, err := c.account.API.DeleteResource(ctx, &cloudcontrol.DeleteResourceInput{TypeName: &c.Type.Name, Identifier: &ref, ClientToken: &i.Token,
			RoleArn: role})
		if err != nil {
			return nil, err
		}
		return out.ProgressEvent, nil
	}
}

// resume is what Poll continues with: the verb, when the operation began, AWS's request token, the properties of an update
// that AWS changes only in some cases, and, for messages, which step of a change it is.
type resume struct {
	verb        external.Verb
	since       time.Time
	token       string
	conditional []string
	step        string
}

func (r resume) String() string {
	verb := string(r.verb)
	if len(r.conditional) > 0 || r.step != "" {
		verb += ":" + strings.Join(r.conditional, ",")
	}
	if r.step != "" {
		verb += ":" + url.QueryEscape(r.step)
	}
	return verb + "/" + strconv.FormatInt(r.since.Unix(), 10) + "/" + r.token
}

func parseResume(text string) (resume, error) {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) < 3 {
		return resume{}, fmt.Errorf("the operation cannot be continued with %q", text)
	}
	since, err := strconv.ParseInt(parts[1], 10, 64)
	verb, details, _ := strings.Cut(parts[0], ":")
	names, step, _ := strings.Cut(details, ":")
	r := resume{verb: external.Verb(verb), since: time.Unix(since, 0), token: parts[2]}
	if names != "" {
		r.conditional = strings.Split(names, ",")
	}
	if err == nil {
		r.step, err = url.QueryUnescape(step)
	}
	return r, err
}

// Poll returns the state of an operation.
func (c *client) Poll(ctx context.Context, _ *unstructured.Unstructured, was external.Op) (external.Op, error) {
	r, err := parseResume(was.Resume)
	if err != nil {
		return external.Op{}, err
	}
	c.conditional = r.conditional
	event, err := c.status(ctx, r.token)
	switch {
	case codeOf(err) == codeTokenNotFound && c.options.Now().Sub(r.since) > c.timeout(r.verb):
		return external.Op{Done: true, Err: &external.OpError{
			Class: external.Failed, Code: codeTokenNotFound, Message: "AWS no longer knows the request, and how it has ended",
		}}, nil
	case err != nil:
		return external.Op{}, c.readError("get the status of the request of", err)
	}
	if aws.ToString(event.Identifier) == "" && was.Ref != "" {
		event.Identifier = aws.String(string(was.Ref)) // an earlier event has named the resource, so it exists
	}
	op := c.toOp(r, event)
	if op.Done {
		c.forgetReads(string(op.Ref))
	}
	return op, nil
}

func (c *client) status(ctx context.Context, token string) (types.ProgressEvent, error) {
	if err := c.account.Limiter.Wait(ctx, reads); err != nil {
		return types.ProgressEvent{}, err
	}
	out, err := c.account.API.GetResourceRequestStatus(ctx, &cloudcontrol.GetResourceRequestStatusInput{RequestToken: &token})
	c.account.Limiter.Report(err)
	if err != nil {
		return types.ProgressEvent{}, err
	}
	if out.ProgressEvent == nil {
		return types.ProgressEvent{}, fmt.Errorf("AWS has returned no progress of the request")
	}
	return *out.ProgressEvent, nil
}

const (
	// defaultTimeout is for a handler that names none, timeoutMargin is added to all.
	defaultTimeout = 2 * time.Hour
	timeoutMargin  = 10 * time.Minute
)

// An operation of the verb has certainly ended after this time.
func (c *client) timeout(verb external.Verb) time.Duration {
	handler := c.Type.Handlers[map[external.Verb]resourcetype.Verb{
		external.Create: resourcetype.Create, external.Update: resourcetype.Update, external.Delete: resourcetype.Delete,
	}[verb]]
	if handler.TimeoutInMinutes == 0 {
		return defaultTimeout + timeoutMargin
	}
	return time.Duration(handler.TimeoutInMinutes)*time.Minute + timeoutMargin
}

// Bounds of the interval of polls. It grows with the age of an operation.
const (
	minPoll = time.Second
	maxPoll = time.Minute
)

func pollDelay(age time.Duration) time.Duration { return min(maxPoll, 2*minPoll+age/10) }

func (c *client) toOp(r resume, event types.ProgressEvent) external.Op {
	r.token, r.conditional = aws.ToString(event.RequestToken), c.conditional
	op := external.Op{Resume: r.String(), State: string(event.OperationStatus), Ref: external.Ref(aws.ToString(event.Identifier))}
	if r.step != "" {
		op.State += ": " + r.step
	}
	switch event.OperationStatus {
	case types.OperationStatusSuccess:
		op.Done = true
	case types.OperationStatusFailed, types.OperationStatusCancelComplete:
		return c.toFailure(r.verb, op, event)
	default:
		now := c.options.Now()
		op.RetryAfter = pollDelay(now.Sub(r.since))
		if event.RetryAfter != nil {
			op.RetryAfter = event.RetryAfter.Sub(now)
		}
		op.RetryAfter = min(maxPoll, max(minPoll, op.RetryAfter))
	}
	return op
}
