package account

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// sources are the ConfigSources of an aws.Config: where service clients look for their endpoint. The sources that the
// SDK has loaded are behind functions, because they contain credentials, which a printer of the config would show.
type sources struct {
	endpoints func(service string) (string, bool)
	loaded    func() []any
}

func newSources(s settings, loaded []any) ([]any, error) {
	urls := map[string]string{}
	if s.Spec.Endpoint != nil {
		for _, service := range s.Spec.Endpoint.Services {
			urls[service.Name] = string(service.URL)
		}
	}
	// The SDK looks at this variable itself, and then not at its sources.
	if _, isSet := os.LookupEnv("AWS_ENDPOINT_URL"); isSet && len(urls) > 0 {
		return nil, errors.New("spec.endpoint.services has no effect while the environment variable AWS_ENDPOINT_URL of Espalier is set: have an administrator unset it")
	}
	return []any{sources{
		endpoints: func(service string) (string, bool) {
			url, ok := urls[service]
			return url, ok
		},
		loaded: func() []any { return loaded },
	}}, nil
}

// GetServiceBaseEndpoint returns the endpoint of a service, by its name in the SDK.
func (s sources) GetServiceBaseEndpoint(ctx context.Context, sdkID string) (string, bool, error) {
	if url, ok := s.endpoints(serviceName(sdkID)); ok {
		return url, true, nil
	}
	ignored, _, _ := find(s.loaded(), func(p interface {
		GetIgnoreConfiguredEndpoints(context.Context) (bool, bool, error)
	}) (bool, bool, error) {
		return p.GetIgnoreConfiguredEndpoints(ctx)
	})
	if ignored {
		return "", false, nil
	}
	return find(s.loaded(), func(p interface {
		GetServiceBaseEndpoint(context.Context, string) (string, bool, error)
	}) (string, bool, error) {
		return p.GetServiceBaseEndpoint(ctx, sdkID)
	})
}

// GetUseFIPSEndpoint returns whether to use the endpoints for FIPS 140.
func (s sources) GetUseFIPSEndpoint(ctx context.Context) (aws.FIPSEndpointState, bool, error) {
	return find(s.loaded(), func(p interface {
		GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error)
	}) (aws.FIPSEndpointState, bool, error) {
		return p.GetUseFIPSEndpoint(ctx)
	})
}

// GetUseDualStackEndpoint returns whether to use the endpoints with IPv6.
func (s sources) GetUseDualStackEndpoint(ctx context.Context) (aws.DualStackEndpointState, bool, error) {
	return find(s.loaded(), func(p interface {
		GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error)
	}) (aws.DualStackEndpointState, bool, error) {
		return p.GetUseDualStackEndpoint(ctx)
	})
}

func find[P, V any](all []any, get func(P) (V, bool, error)) (V, bool, error) {
	var none V
	for _, source := range all {
		if p, ok := source.(P); ok {
			if value, found, err := get(p); found || err != nil {
				return value, found, err
			}
		}
	}
	return none, false, nil
}

func serviceName(sdkID string) string { return strings.ReplaceAll(strings.ToLower(sdkID), " ", "_") }
