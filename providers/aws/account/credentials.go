package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
)

const maxToken = 64 << 10

// It makes no requests, and waits for none.
func (o Options) newConfig(ctx context.Context, s settings, r *redactor, t *http.Transport) (aws.Config, error) {
	c := aws.Config{
		Region: s.Spec.Region, HTTPClient: newClient(s, t), Logger: logging.Nop{},
		// A limiter for the whole account decides when to repeat a request, and the state machine of managed
		// resources whether.
		Retryer:    func() aws.Retryer { return aws.NopRetryer{} },
		APIOptions: []func(*middleware.Stack) error{r.middleware, o.Metrics.Middleware},
	}
	if s.Spec.Endpoint != nil && s.Spec.Endpoint.URL != "" {
		c.BaseEndpoint = aws.String(string(s.Spec.Endpoint.URL))
	}
	var loaded []any
	var err error
	switch s.Spec.Credentials.Source {
	case v1alpha1.CredentialsSecret:
		key := s.AccessKey
		c.Credentials = r.provider(credentials.NewStaticCredentialsProvider(key.ID, key.Secret, key.Token))
	case v1alpha1.CredentialsDefault, v1alpha1.CredentialsProfile:
		if loaded, err = s.load(ctx, &c, r, t); err != nil {
			return aws.Config{}, err
		}
	case v1alpha1.CredentialsPodIdentity:
		if c.Credentials, err = podIdentity(r); err != nil {
			return aws.Config{}, err
		}
	case v1alpha1.CredentialsWebIdentity: // needs the endpoints
	default:
		return aws.Config{}, fmt.Errorf("spec.credentials.source %q is unknown", s.Spec.Credentials.Source)
	}
	if c.ConfigSources, err = newSources(s, loaded); err != nil {
		return aws.Config{}, err
	}
	if s.Spec.Credentials.Source == v1alpha1.CredentialsWebIdentity {
		if c.Credentials, err = webIdentity(c, s.Spec.Credentials.WebIdentity, r); err != nil {
			return aws.Config{}, err
		}
	}
	for _, role := range s.Spec.AssumeRole {
		c.Credentials = assume(c.Copy(), role, r)
	}
	return c, nil
}

// load sets the credentials of the default chain or of a profile, with the settings that belong to them. It
// returns the SDK's sources of settings.
func (s settings) load(ctx context.Context, c *aws.Config, r *redactor, t *http.Transport) ([]any, error) {
	ec2 := imds.ClientDisabled
	var profile config.LoadOptionsFunc = func(*config.LoadOptions) error { return nil }
	switch {
	case s.Spec.Credentials.Source == v1alpha1.CredentialsProfile:
		profile = config.WithSharedConfigProfile(s.Spec.Credentials.Profile)
	case s.Namespace == "":
		ec2 = imds.ClientDefaultEnableState
	}
	own := c.HTTPClient
	chain := awshttp.NewBuildableClient().WithTransportOptions(func(other *http.Transport) {
		if t.TLSClientConfig.RootCAs != nil {
			other.TLSClientConfig.RootCAs = t.TLSClientConfig.RootCAs.Clone()
		}
	})
	loaded, err := config.LoadDefaultConfig(ctx, profile, config.WithRegion(c.Region), config.WithHTTPClient(chain), config.WithLogger(c.Logger),
		config.WithAPIOptions(c.APIOptions), config.WithEC2IMDSClientEnableState(ec2), func(l *config.LoadOptions) error {
			if c.BaseEndpoint != nil {
				l.BaseEndpoint = *c.BaseEndpoint
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("spec.credentials: %w", r.error(err))
	}
	retryer := c.Retryer
	*c = loaded
	c.HTTPClient, c.Retryer, c.ClientLogMode, c.RetryMaxAttempts = own, retryer, 0, 0
	c.Credentials = r.provider(loaded.Credentials)
	sources := loaded.ConfigSources
	c.ConfigSources = nil
	return sources, nil
}

// It keeps them until shortly before they expire.
func cached(p aws.CredentialsProvider) aws.CredentialsProvider {
	return aws.NewCredentialsCache(p, func(o *aws.CredentialsCacheOptions) {
		o.ExpiryWindow, o.ExpiryWindowJitterFrac = 5*time.Minute, 0.5
	})
}

const defaultSessionName = "espalier"

func assume(c aws.Config, role v1alpha1.AssumeRole, r *redactor) aws.CredentialsProvider {
	return r.provider(cached(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(c), string(role.RoleARN), func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = cmp.Or(string(role.SessionName), defaultSessionName)
		o.Duration = time.Duration(cmp.Or(role.DurationSeconds, 3600)) * time.Second
		if role.ExternalID != "" {
			o.ExternalID = aws.String(role.ExternalID)
		}
		for key, value := range role.SessionTags {
			o.Tags = append(o.Tags, types.Tag{Key: aws.String(key), Value: aws.String(value)})
		}
		slices.SortFunc(o.Tags, func(a, b types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	})))
}

func webIdentity(c aws.Config, w *v1alpha1.WebIdentity, r *redactor) (aws.CredentialsProvider, error) {
	if w == nil {
		w = &v1alpha1.WebIdentity{}
	}
	role := cmp.Or(string(w.RoleARN), os.Getenv("AWS_ROLE_ARN"))
	file := cmp.Or(w.TokenFile, os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"))
	switch {
	case role == "":
		return nil, errors.New("spec.credentials.webIdentity: there is no role: set roleARN, or annotate the pod's service account with eks.amazonaws.com/role-arn")
	case file == "":
		return nil, errors.New("spec.credentials.webIdentity: there is no token: set tokenFile, or annotate the pod's service account with eks.amazonaws.com/role-arn")
	case !isTokenFile(file):
		return nil, fmt.Errorf("spec.credentials.webIdentity.tokenFile: %s is not a token for AWS: name a file in %s, or set the environment variable AWS_WEB_IDENTITY_TOKEN_FILE of Espalier to it", file, tokenDirectory)
	}
	c.Credentials = nil
	provider := stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(c), role, tokenFile{file, r}, func(o *stscreds.WebIdentityRoleOptions) {
		o.RoleSessionName = cmp.Or(string(w.SessionName), defaultSessionName)
	})
	return r.provider(cached(provider)), nil
}

// tokenDirectory is where EKS mounts the tokens of service accounts for AWS.
const tokenDirectory = "/var/run/secrets/eks.amazonaws.com/serviceaccount"

// Other files, such as the token for the API server, must not reach the endpoint of a configuration.
func isTokenFile(file string) bool {
	if !filepath.IsAbs(file) || filepath.Clean(file) != file {
		return false
	}
	return file == os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") || strings.HasPrefix(file, tokenDirectory+"/")
}

// The token is replaced from time to time.
type tokenFile struct {
	path string
	r    *redactor
}

// GetIdentityToken returns the token.
func (t tokenFile) GetIdentityToken() ([]byte, error) {
	raw, err := readToken(t.path)
	t.r.add(strings.TrimSpace(string(raw)))
	return raw, err
}

func readToken(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err == nil && len(raw) > maxToken {
		err = fmt.Errorf("%s has more than %d bytes", path, maxToken)
	}
	return raw, err
}

// Environment variables that EKS sets in pods with a pod identity.
const (
	containerURL       = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
	containerTokenFile = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
)

func podIdentity(r *redactor) (aws.CredentialsProvider, error) {
	address, file := os.Getenv(containerURL), os.Getenv(containerTokenFile)
	if address == "" || file == "" {
		return nil, fmt.Errorf("spec.credentials.source is PodIdentity, but the environment variables %s and %s are not set: "+
			"associate the pod's service account with a role (aws eks create-pod-identity-association), and restart the pod", containerURL, containerTokenFile)
	}
	if u, err := url.Parse(address); err != nil || !isAgent(u.Hostname()) {
		return nil, fmt.Errorf("the environment variable %s does not have an address of the EKS Pod Identity Agent", containerURL)
	}
	agent := &http.Client{
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext, IdleConnTimeout: time.Minute,
			ResponseHeaderTimeout: connectTimeout, MaxResponseHeaderBytes: maxToken,
		},
		Timeout: connectTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r.provider(cached(endpointcreds.New(address, func(o *endpointcreds.Options) {
		o.HTTPClient, o.Retryer = agent, aws.NopRetryer{}
		o.APIOptions = []func(*middleware.Stack) error{r.middleware}
		o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
			raw, err := readToken(file)
			token := strings.TrimSpace(string(raw))
			r.add(token)
			return token, err
		})
	}))), nil
}

// It is the EKS Pod Identity Agent, or loopback.
func isAgent(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip == netip.AddrFrom4([4]byte{169, 254, 170, 23}) || ip == netip.MustParseAddr("fd00:ec2::23"))
}
