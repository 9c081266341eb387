package account

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// service is a Security Token Service that believes everybody.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
	// Respond replaces the response to an action, if it is set.
	respond func(w http.ResponseWriter, r *http.Request, form url.Values) bool
}

// call is a request that the service has received.
type call struct {
	Form      url.Values
	AccessKey string
	Token     string
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(after, "/")
	s.mu.Lock()
	s.calls = append(s.calls, call{r.Form, key, r.Header.Get("X-Amz-Security-Token")})
	n, respond := len(s.calls), s.respond
	s.mu.Unlock()
	if respond != nil && respond(w, r, r.Form) {
		return
	}
	action := r.Form.Get("Action")
	w.Header().Set("Content-Type", "text/xml")
	switch action {
	case "GetCallerIdentity":
		_, _ = fmt.Fprintf(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws-cn:sts::123456789012:user/%s</Arn><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`, key)
	case "AssumeRole", "AssumeRoleWithWebIdentity":
		_, _ = fmt.Fprintf(w, `<%[1]sResponse><%[1]sResult><Credentials><AccessKeyId>ASIA%[2]d</AccessKeyId><SecretAccessKey>assumed-secret-%[2]d</SecretAccessKey><SessionToken>assumed-token-%[2]d</SessionToken><Expiration>%[3]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`,
			action, n, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	default:
		http.Error(w, "unknown action "+action, http.StatusBadRequest)
	}
}

// actions returns what was called.
func (s *service) actions() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, c := range s.calls {
		all = append(all, c.Form.Get("Action"))
	}
	return strings.Join(all, " ")
}

func (s *service) last() call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[len(s.calls)-1]
}

func (s *service) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// objects are the objects of an API server by kind, namespace and name.
type objects map[string]map[string]any

func (o objects) Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if found, ok := o[kind.Kind+"/"+namespace+"/"+name]; ok {
		return &unstructured.Unstructured{Object: found}, nil
	}
	return nil, nil
}

func (o objects) Owner(external.Key) (*external.Owner, error) { return nil, nil }

func (o objects) secret(namespace, name string, data map[string]string) {
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	o["Secret/"+namespace+"/"+name] = map[string]any{"data": encoded}
}

func (o objects) config(namespace string, spec map[string]any) {
	kind := v1alpha1.ProviderConfigKind
	if namespace == "" {
		kind = v1alpha1.ClusterProviderConfigKind
	}
	spec["region"] = cmp.Or(spec["region"], any("eu-central-1"))
	o[kind+"/"+namespace+"/default"] = map[string]any{"spec": spec}
}

// managedIn returns a managed resource that refers to the configuration of its namespace, or the default one.
func managedIn(namespace, kind string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"providerConfigRef": map[string]any{"name": "default", "kind": kind}}}}
	m.SetNamespace(namespace)
	return m
}

// The canaries that must be in no text.
const (
	canarySecret = "wJalrCANARYEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	canaryToken  = "IQoJb3JpZ2luCANARYX2VjEDoaCXVzLWVhc3QtMSJHMEUCIQDtoken/with+specials=="
)

// withSecret is a ProviderConfig of namespace team with an access key, at the service.
func withSecret(s *service) (objects, *unstructured.Unstructured) {
	all := objects{}
	all.secret("team", "key", map[string]string{"accessKeyId": "AKIAONE", "secretAccessKey": canarySecret, "sessionToken": canaryToken})
	all.secret("team", "ca", map[string]string{"ca.crt": s.ca()})
	all.config("team", map[string]any{
		"credentials": map[string]any{"source": "Secret", "secretRef": map[string]any{"name": "key"}},
		"endpoint":    map[string]any{"url": s.URL, "caSecretRef": map[string]any{"name": "ca"}},
	})
	return all, managedIn("team", v1alpha1.ProviderConfigKind)
}

// forCluster is a ClusterProviderConfig with a source of credentials, at the service.
func forCluster(s *service, credentials map[string]any) (objects, *unstructured.Unstructured) {
	all := objects{}
	all.secret("system", "ca", map[string]string{"ca.crt": s.ca()})
	all.config("", map[string]any{
		"credentials": credentials,
		"endpoint":    map[string]any{"url": s.URL, "caSecretRef": map[string]any{"name": "ca", "namespace": "system"}},
	})
	return all, managedIn("team", "")
}

func connect(t *testing.T, c *Connector, all objects, m *unstructured.Unstructured) *Account {
	t.Helper()
	a, err := c.Connect(context.Background(), all, m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// clean has the SDK find no credentials of the machine that runs the test.
func clean(t *testing.T) {
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CA_BUNDLE",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/credentials")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}
