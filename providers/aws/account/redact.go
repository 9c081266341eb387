package account

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Services repeat requests in their errors: the error about a wrong signature quotes the signed headers, including the
// session token.

// maxSecrets bounds how many secrets are remembered: secrets of the credentials, of each role, and of sessions that
// have just ended.
const maxSecrets = 32

// redactor removes the credentials of a session from errors.
type redactor struct {
	mu      sync.Mutex
	secrets []string // the latest last
}

func (r *redactor) add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range secrets {
		if len(secret) < 8 || slices.Contains(r.secrets, secret) { // a shorter one would make texts unreadable
			continue
		}
		if r.secrets = append(r.secrets, secret); len(r.secrets) > maxSecrets {
			r.secrets = slices.Clone(r.secrets[1:])
		}
	}
}

// Its credentials are removed from errors.
func (r *redactor) provider(p aws.CredentialsProvider) aws.CredentialsProvider {
	return &redactedProvider{func(ctx context.Context) (aws.Credentials, error) {
		c, err := p.Retrieve(ctx)
		r.add(c.SecretAccessKey, c.SessionToken)
		return c, r.error(err)
	}}
}

// redactedProvider contains a function, which no printer looks into. It is used as a pointer: what clients share is
// kept by their credentials, and functions cannot be compared.
type redactedProvider struct {
	retrieve func(context.Context) (aws.Credentials, error)
}

// Retrieve implements aws.CredentialsProvider.
func (p *redactedProvider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	return p.retrieve(ctx)
}

const redacted = "(redacted)"

// signed matches signed headers and signatures in a text.
var signed = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(x-amz-security-token|authorization)("?\s*[:=]\s*)\S.*`),
	regexp.MustCompile(`(?i)(signature)(=)[0-9a-f]{16,}`),
}

// window is the length of a part of a secret that must not be in a text.
const window = 12

// It removes the secrets, and signatures. If a part of a secret would stay, because the secret is escaped or cut,
// nothing of the text does.
func (r *redactor) text(text string) string {
	r.mu.Lock()
	secrets := slices.Clone(r.secrets)
	r.mu.Unlock()
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	for _, pattern := range signed {
		text = pattern.ReplaceAllString(text, "$1$2"+redacted)
	}
	for _, secret := range secrets {
		for i := 0; i+window <= len(secret); i++ {
			if strings.Contains(text, secret[i:i+window]) {
				return "(the message is withheld: it contains a part of the credentials)"
			}
		}
	}
	return text
}

// An error without secrets stays as it is; otherwise the code of the API and the status of the response stay.
func (r *redactor) error(err error) error {
	if err == nil {
		return nil
	}
	text := r.text(err.Error())
	if text == err.Error() {
		return err
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return errors.New(text)
	}
	var clean error = &smithy.GenericAPIError{Code: api.ErrorCode(), Message: r.text(api.ErrorMessage()), Fault: api.ErrorFault()}
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		clean = &awshttp.ResponseError{
			RequestID: response.RequestID,
			ResponseError: &smithyhttp.ResponseError{
				Response: &smithyhttp.Response{Response: &http.Response{StatusCode: response.HTTPStatusCode(),
					Header: http.Header{"Retry-After": response.Response.Header["Retry-After"]}}},
				Err: clean,
			},
		}
	}
	return clean
}

// All errors of a service client pass the redactor.
func (r *redactor) middleware(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("RedactCredentials",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleInitialize(ctx, in)
			return out, metadata, r.error(err)
		}), middleware.Before)
}
