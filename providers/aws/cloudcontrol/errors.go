package cloudcontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	"github.com/aws/smithy-go"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Codes of errors that are handled.
const (
	codeTokenConflict = "ClientTokenConflictException"
	codeTokenNotFound = "RequestTokenNotFoundException"
	codeNotFound      = "ResourceNotFoundException"
	codeConcurrent    = "ConcurrentOperationException"
	codeGeneral       = "GeneralServiceException"
)

// unknownOutcome are codes of errors after which a call may have had its effect.
var unknownOutcome = []string{
	"ServiceInternalErrorException", "HandlerInternalFailureException", "HandlerFailureException", "NetworkFailureException",
	"NotStabilizedException", "ConcurrentModificationException", "InternalFailure", "InternalServerError", "ServiceUnavailable", codeGeneral,
}

// It is empty for errors that are not AWS's. Some services report a token that was used before as another error, with a
// text that says so.
func codeOf(err error) string {
	var answer smithy.APIError
	switch {
	case !errors.As(err, &answer):
		return ""
	case usedToken.MatchString(answer.ErrorMessage()):
		return codeTokenConflict
	}
	return answer.ErrorCode()
}

func messageOf(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) && answer.ErrorMessage() != "" {
		return answer.ErrorMessage()
	}
	return err.Error()
}

var (
	// usedToken is in the message about a token that an operation has.
	usedToken = regexp.MustCompile(`already associated with an existing operation with RequestToken:? ?"?([0-9A-Za-z-]+)`)
	// handlerCode is in the message of an error that the handler of a type has returned.
	handlerCode = regexp.MustCompile(`HandlerErrorCode: (\w+)`)
	// action is an IAM action.
	action = regexp.MustCompile(`\b[a-z][a-z0-9-]*:[A-Z]\w+`)
)

// The error says so by its code, or by the code of the handler in its text.
func isNotFound(err error) bool {
	if err == nil {
		return false
	}
	code := codeOf(err)
	if code == codeNotFound {
		return true
	}
	found := handlerCode.FindStringSubmatch(messageOf(err))
	return code != "" && found != nil && found[1] == string(types.HandlerErrorCodeNotFound)
}

func isThrottled(err error) bool {
	if err == nil {
		return false
	}
	switch codeOf(err) {
	case "ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded":
		return true
	case codeGeneral:
		return isThrottlingText(messageOf(err))
	}
	found := handlerCode.FindStringSubmatch(messageOf(err))
	return found != nil && found[1] == string(types.HandlerErrorCodeThrottling)
}

func isThrottlingText(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "rate exceeded") || strings.Contains(text, "throttl") || strings.Contains(text, "too many requests")
}

// AWS asks for the delay in a header; 0 if it doesn't.
func retryAfter(err error) time.Duration {
	var response *awshttp.ResponseError
	if !errors.As(err, &response) || response.HTTPResponse() == nil {
		return 0
	}
	seconds, parseErr := time.ParseDuration(response.HTTPResponse().Header.Get("Retry-After") + "s")
	if parseErr != nil {
		return 0
	}
	return seconds
}

// Delays after errors that pass by themselves.
const (
	throttledDelay  = 5 * time.Second
	concurrentDelay = 15 * time.Second
)

// The call was not sent.
func notSent(err error) *external.OpError {
	var limited *external.OpError
	if errors.As(err, &limited) {
		return limited
	}
	return &external.OpError{Class: external.Rejected, Message: "the call was not sent: " + err.Error()}
}

// The call changes something. AWS has not accepted a call that it answers with an error of the client.
func (c *client) callError(verb external.Verb, err error) *external.OpError {
	var unsent *external.OpError
	if errors.As(err, &unsent) { // of a limit of this program
		return unsent
	}
	out := &external.OpError{Class: external.Ambiguous, Code: codeOf(err), Message: c.explained(verb, codeOf(err), messageOf(err)), RetryAfter: retryAfter(err)}
	var response *awshttp.ResponseError
	var answer smithy.APIError
	switch isAnswer := errors.As(err, &answer); {
	case !isAnswer, slices.Contains(unknownOutcome, out.Code):
	case errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusInternalServerError:
	case answer.ErrorFault() == smithy.FaultServer && response == nil:
	default:
		out.Class = external.Rejected
	}
	switch {
	case out.RetryAfter > 0:
	case isThrottled(err):
		out.RetryAfter = throttledDelay
	case out.Code == codeConcurrent:
		out.RetryAfter = concurrentDelay
	}
	return out
}

func (c *client) readError(verb string, err error) error {
	var limited *external.OpError
	if errors.As(err, &limited) {
		return limited
	}
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return errors.New(c.redacted(err.Error()))
	}
	out := &external.OpError{Code: answer.ErrorCode(), RetryAfter: retryAfter(err)}
	handler := resourcetype.Read
	if verb == "list" {
		handler = resourcetype.List
	}
	out.Message = c.redacted(answer.ErrorMessage() + c.permissions(verb, handler, answer.ErrorCode(), answer.ErrorMessage()))
	if isThrottled(err) && out.RetryAfter == 0 {
		out.RetryAfter = throttledDelay
	}
	return out
}

func (c *client) toFailure(verb external.Verb, op external.Op, event types.ProgressEvent) external.Op {
	code := event.ErrorCode
	op.Done = true
	op.Err = &external.OpError{Class: external.Failed, Code: string(code), Message: c.explained(verb, string(code), aws.ToString(event.StatusMessage))}
	if event.OperationStatus == types.OperationStatusCancelComplete {
		op.Err.Message = strings.TrimSpace("the request was canceled. " + op.Err.Message)
	}
	if code == types.HandlerErrorCodeThrottling || isThrottlingText(op.Err.Message) {
		op.Err.RetryAfter = throttledDelay
	}
	switch verb {
	case external.Delete:
		if code == types.HandlerErrorCodeNotFound {
			return external.Op{Done: true, Resume: op.Resume, Ref: op.Ref} // an observation confirms it
		}
	case external.Create:
		if c.caps.Naming == external.CallerAssigned || code == types.HandlerErrorCodeAlreadyExists {
			op.Ref = "" // another client's resource may have the identifier; an observation shows whose it is
		}
		if c.hadNoEffect(op.Ref, event) {
			op.Err.Class = external.Rejected
		} else if op.Ref == "" && c.caps.Naming == external.ProviderAssigned && !c.caps.Findable {
			// The token is used up, and nothing shows whether there is a resource: a user has to look.
			op.Err.Class, op.Err.Mismatch = external.Rejected, true
		}
	case external.Update:
	}
	return op
}

// beforeEffect are codes of failed creations that handlers return before they create anything.
var beforeEffect = []types.HandlerErrorCode{
	types.HandlerErrorCodeInvalidRequest, types.HandlerErrorCodeAccessDenied, types.HandlerErrorCodeUnauthorizedTaggingOperation,
	types.HandlerErrorCodeInvalidCredentials, types.HandlerErrorCodeAlreadyExists, types.HandlerErrorCodeServiceLimitExceeded,
	types.HandlerErrorCodeNotFound, types.HandlerErrorCodeNotUpdatable, types.HandlerErrorCodeThrottling, types.HandlerErrorCodeResourceConflict,
}

// The failed creation has left nothing for certain. A handler returns the identifier as soon as there is a resource.
// Where tags show what was left, only clear codes count.
func (c *client) hadNoEffect(ref external.Ref, event types.ProgressEvent) bool {
	isEarly := slices.Contains(beforeEffect, event.ErrorCode)
	if c.caps.Naming == external.CallerAssigned {
		return isEarly
	}
	return ref == "" && (isEarly || event.ErrorCode == types.HandlerErrorCodeGeneralServiceException && !c.caps.Findable)
}

// blockers are texts in the messages of deletions that other resources prevent.
var blockers = []string{"dependencyviolation", "has dependencies", "dependent object", "in use", "is used by", "not empty", "must detach", "deleteconflict"}

func (c *client) explained(verb external.Verb, code, message string) string {
	text := strings.ToLower(code + " " + message)
	if verb == external.Delete && (code == string(types.HandlerErrorCodeResourceConflict) ||
		slices.ContainsFunc(blockers, func(b string) bool { return strings.Contains(text, b) })) {
		message = "other resources still use it: " + message
	}
	if verb == external.Update && isNotUpdatable(code, message) {
		message = needsReplacement(c.conditional) + message
	}
	handlers := map[external.Verb]resourcetype.Verb{external.Create: resourcetype.Create, external.Update: resourcetype.Update,
		external.Delete: resourcetype.Delete}
	return c.redacted(message + c.permissions(strings.ToLower(string(verb)), handlers[verb], code, message))
}

// maxPermissions bounds how many IAM actions a message names.
const maxPermissions = 8

// The actions are named if AWS has denied access without naming one.
func (c *client) permissions(verb string, handler resourcetype.Verb, code, message string) string {
	denied := strings.Contains(code, "AccessDenied") || strings.Contains(code, "Unauthorized") ||
		strings.Contains(message, "AccessDenied") || strings.Contains(message, "not authorized to perform")
	if !denied {
		return ""
	}
	named := action.FindAllString(message, -1)
	all := slices.DeleteFunc(slices.Clone(c.Type.Handlers[handler].Permissions), func(p string) bool { return slices.Contains(named, p) })
	more := ""
	if len(all) > maxPermissions {
		more, all = fmt.Sprintf(" and %d more", len(all)-maxPermissions), all[:maxPermissions]
	}
	switch {
	case len(all) == 0:
		return ""
	case len(named) > 0:
		return fmt.Sprintf(" (to %s %s, the credentials also need the IAM permissions %s%s)", verb, c.Type.Name, strings.Join(all, ", "), more)
	}
	return fmt.Sprintf(" (to %s %s, the credentials need the IAM permissions %s%s)", verb, c.Type.Name, strings.Join(all, ", "), more)
}

// maxMessage bounds messages of AWS in bytes.
const maxMessage = 700

func bounded(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
