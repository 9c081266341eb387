package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestTheAccountOfASecretIsDeterminedOnceForEachKey(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	c := New(Options{LocalEndpoints: true})
	for range 3 {
		a := connect(t, c, all, m)
		if a.ID != "123456789012" || a.Region != "eu-central-1" || a.Partition != "aws-cn" || a.Scope() != "team/123456789012/eu-central-1" {
			t.Errorf("got %q in %q of %q, scope %q", a.ID, a.Region, a.Partition, a.Scope())
		}
	}
	if got := s.actions(); got != "GetCallerIdentity" {
		t.Errorf("got calls %s", got)
	}
	if got := s.last(); got.AccessKey != "AKIAONE" || got.Token != canaryToken {
		t.Errorf("signed with %q and token %q", got.AccessKey, got.Token)
	}
	all.secret("team", "key", map[string]string{"AWS_ACCESS_KEY_ID": "AKIATWO", "AWS_SECRET_ACCESS_KEY": "another-secret"})
	connect(t, c, all, m)
	if got := s.last(); got.AccessKey != "AKIATWO" || got.Token != "" {
		t.Errorf("after a rotation, signed with %q and token %q", got.AccessKey, got.Token)
	}
}

func TestManyManagedResourcesShareOneCall(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	c := New(Options{LocalEndpoints: true})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { _, _ = c.Connect(context.Background(), all, m) })
	}
	wg.Wait()
	if got := s.actions(); got != "GetCallerIdentity" {
		t.Errorf("got calls %s", got)
	}
}

func TestRolesAreAssumedInTheirOrder(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	spec := all["ProviderConfig/team/default"]["spec"].(map[string]any)
	spec["roleARN"] = "arn:aws:iam::123456789012:role/handlers"
	spec["assumeRole"] = []any{
		map[string]any{"roleARN": "arn:aws:iam::111111111111:role/hub", "durationSeconds": int64(900)},
		map[string]any{"roleARN": "arn:aws:iam::123456789012:role/spoke", "externalID": "tenant-7", "sessionName": "espalier-team", "sessionTags": map[string]any{"team": "a", "app": "b"}},
	}
	a := connect(t, New(Options{LocalEndpoints: true}), all, m)
	if a.RoleARN != "arn:aws:iam::123456789012:role/handlers" {
		t.Errorf("got role %q", a.RoleARN)
	}
	if got := s.actions(); got != "AssumeRole AssumeRole GetCallerIdentity" {
		t.Fatalf("got calls %s", got)
	}
	first, second, third := s.calls[0], s.calls[1], s.calls[2]
	if first.AccessKey != "AKIAONE" || first.Form.Get("RoleSessionName") != "espalier" || first.Form.Get("DurationSeconds") != "900" || first.Form.Has("ExternalId") {
		t.Errorf("first: %+v", first)
	}
	want := url.Values{
		"Action": {"AssumeRole"}, "Version": {"2011-06-15"}, "RoleArn": {"arn:aws:iam::123456789012:role/spoke"}, "ExternalId": {"tenant-7"}, "RoleSessionName": {"espalier-team"},
		"DurationSeconds": {"3600"}, "Tags.member.1.Key": {"app"}, "Tags.member.1.Value": {"b"}, "Tags.member.2.Key": {"team"}, "Tags.member.2.Value": {"a"},
	}
	if second.AccessKey != "ASIA1" || second.Form.Encode() != want.Encode() {
		t.Errorf("second: %+v", second)
	}
	if third.AccessKey != "ASIA2" || third.Token != "assumed-token-2" {
		t.Errorf("third: %+v", third)
	}
}

func TestAWebIdentityHasTheTokenOfItsFile(t *testing.T) {
	clean(t)
	s := newService(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(canaryToken), 0o600); err != nil {
		t.Fatal(err)
	}
	all, m := forCluster(s, map[string]any{"source": "WebIdentity"})
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
	if a := connect(t, New(Options{}), all, m); a.Scope() != "123456789012/eu-central-1" {
		t.Errorf("got scope %q", a.Scope())
	}
	if got := s.calls[0]; got.Form.Get("WebIdentityToken") != canaryToken || got.Form.Get("RoleArn") != "arn:aws:iam::123456789012:role/pod" || got.AccessKey != "" {
		t.Errorf("got %+v", got)
	}
}

func TestOtherFilesAreNotSentAsTokens(t *testing.T) {
	for _, file := range []string{
		"/var/run/secrets/kubernetes.io/serviceaccount/token", "/etc/passwd", "token",
		"/var/run/secrets/eks.amazonaws.com/serviceaccount/../../kubernetes.io/serviceaccount/token", "/var/run/secrets/eks.amazonaws.com/serviceaccount2/token",
	} {
		if isTokenFile(file) {
			t.Errorf("%s is allowed", file)
		}
	}
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/tokens/aws")
	if !isTokenFile("/var/run/secrets/eks.amazonaws.com/serviceaccount/token") || !isTokenFile("/var/run/tokens/aws") || isTokenFile("/var/run/tokens/other") {
		t.Error("a token is not allowed")
	}
}

func TestAPodIdentityIsThatOfTheAgent(t *testing.T) {
	clean(t)
	s := newService(t)
	var authorization string
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"AccessKeyId":"ASIAPOD","SecretAccessKey":"pod-secret","Token":"pod-token","Expiration":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer agent.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("agent-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, m := forCluster(s, map[string]any{"source": "PodIdentity"})
	if _, err := New(Options{}).Connect(context.Background(), all, m); err == nil || !strings.Contains(err.Error(), "create-pod-identity-association") {
		t.Errorf("without the agent: %v", err)
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL+"/v1/credentials")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)
	connect(t, New(Options{}), all, m)
	if authorization != "agent-token" || s.last().AccessKey != "ASIAPOD" || s.last().Token != "pod-token" {
		t.Errorf("authorization %q, call %+v", authorization, s.last())
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/v1/credentials")
	if _, err := New(Options{}).Connect(context.Background(), all, m); err == nil || !strings.Contains(err.Error(), "Agent") {
		t.Errorf("want no request to another host, got %v", err)
	}
}

func TestTheDefaultChainAndProfilesAreReadAgain(t *testing.T) {
	clean(t)
	s := newService(t)
	now := time.Now()
	c := New(Options{Now: func() time.Time { return now }})
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", canarySecret)
	all, m := forCluster(s, map[string]any{"source": "Default"})
	connect(t, c, all, m)
	if got := s.last().AccessKey; got != "AKIAENV" {
		t.Errorf("got %q", got)
	}
	file := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	write := func(key string) {
		if err := os.WriteFile(file, []byte("[prod]\naws_access_key_id = "+key+"\naws_secret_access_key = secret-of-the-profile\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("AKIAFILE")
	all, m = forCluster(s, map[string]any{"source": "Profile", "profile": "prod"})
	connect(t, c, all, m)
	if got := s.last().AccessKey; got != "AKIAFILE" {
		t.Errorf("got %q: a profile precedes environment variables", got)
	}
	write("AKIANEXT")
	now = now.Add(reload)
	connect(t, c, all, m)
	if got := s.last().AccessKey; got != "AKIANEXT" {
		t.Errorf("got %q after a rotation", got)
	}
	all, m = forCluster(s, map[string]any{"source": "Profile", "profile": "other"})
	if _, err := c.Connect(context.Background(), all, m); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("want an error about the missing profile, got %v", err)
	}
}

func TestASecretWithoutWhatIsNeededIsNamed(t *testing.T) {
	clean(t)
	s := newService(t)
	cases := map[string]struct {
		change func(objects)
		want   string
	}{
		"no Secret":             {func(o objects) { delete(o, "Secret/team/key") }, "spec.credentials.secretRef: the Secret team/key does not exist"},
		"no key":                {func(o objects) { o.secret("team", "key", map[string]string{"accessKeyId": "AKIAONE"}) }, `spec.credentials.secretRef: the Secret team/key has no value for the key "accessKeyId" or "secretAccessKey"`},
		"an empty value":        {func(o objects) { o.secret("team", "key", map[string]string{"accessKeyId": "", "secretAccessKey": "x"}) }, `spec.credentials.secretRef: the Secret team/key has no value for the key "accessKeyId" or "secretAccessKey"`},
		"no CA certificates":    {func(o objects) { o.secret("team", "ca", nil) }, `spec.endpoint.caSecretRef: the Secret team/ca has no value for the key "ca.crt"`},
		"no Secret of the CA's": {func(o objects) { delete(o, "Secret/team/ca") }, "spec.endpoint.caSecretRef: the Secret team/ca does not exist"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all, m := withSecret(s)
			tc.change(all)
			if _, err := New(Options{}).Connect(t.Context(), all, m); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestNoCredentialsAreInTextsOfErrors has the service quote the whole request, as AWS does for a signature that
// does not match.
func TestNoCredentialsAreInTextsOfErrors(t *testing.T) {
	quotes := map[string]func(r *http.Request) string{
		"as it was":   func(r *http.Request) string { return fmt.Sprint(r.Header) + canarySecret },
		"as a string": func(r *http.Request) string { return "x-amz-security-token:" + r.Header.Get("X-Amz-Security-Token") },
		"escaped":     func(*http.Request) string { return url.QueryEscape(canarySecret) + url.QueryEscape(canaryToken) },
		"cut":         func(*http.Request) string { return "the token " + canaryToken[:20] + "... is not valid" },
	}
	for name, quote := range quotes {
		s := newService(t)
		s.respond = func(w http.ResponseWriter, r *http.Request, _ url.Values) bool {
			w.WriteHeader(http.StatusForbidden)
			var text strings.Builder
			text.WriteString("The canonical string should have been ")
			text.WriteString(quote(r))
			_, _ = fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>SignatureDoesNotMatch</Code><Message><![CDATA[%s]]></Message></Error><RequestId>r-1</RequestId></ErrorResponse>`, text.String())
			return true
		}
		all, m := withSecret(s)
		_, err := New(Options{LocalEndpoints: true}).Connect(context.Background(), all, m)
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorCode() != "SignatureDoesNotMatch" {
			t.Errorf("%s: the code is lost: %v", name, err)
		}
		var status interface{ HTTPStatusCode() int }
		if !errors.As(err, &status) || status.HTTPStatusCode() != http.StatusForbidden {
			t.Errorf("%s: the status is lost: %v", name, err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			for e := err; e != nil; e = errors.Unwrap(e) {
				checkCanaries(t, name+" with "+verb, fmt.Sprintf(verb, e))
			}
		}
	}
}

func checkCanaries(t *testing.T, where, text string) {
	t.Helper()
	for _, canary := range []string{canarySecret, canaryToken} {
		for i := 0; i+window <= len(canary); i++ {
			if strings.Contains(text, canary[i:i+window]) {
				t.Errorf("%s: %s", where, text)
				return
			}
		}
	}
	if strings.Contains(text, "Signature=") && !strings.Contains(text, "Signature="+redacted) {
		t.Errorf("%s has a signature: %s", where, text)
	}
}

func TestNoCredentialsAreInPrintedAccounts(t *testing.T) {
	clean(t)
	s := newService(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", canarySecret)
	t.Setenv("AWS_SESSION_TOKEN", canaryToken)
	c := New(Options{LocalEndpoints: true})
	all, m := withSecret(s)
	ofSecret := connect(t, c, all, m)
	all, m = forCluster(s, map[string]any{"source": "Default"})
	for name, a := range map[string]*Account{"a Secret": ofSecret, "the default chain": connect(t, c, all, m)} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			checkCanaries(t, name, fmt.Sprintf(verb, a))
			checkCanaries(t, name, fmt.Sprintf(verb, *a))
			checkCanaries(t, name, fmt.Sprintf(verb, a.Config))
			checkCanaries(t, name, fmt.Sprintf(verb, a.Config.ConfigSources))
			checkCanaries(t, name, fmt.Sprintf(verb, a.Config.Credentials))
		}
	}
	settings := settings{AccessKey: accessKey{"AKIA", canarySecret, canaryToken}}
	checkCanaries(t, "settings", fmt.Sprintf("%v %+v %#v", settings, settings, settings))
}

func TestARequestIsMadeOnceAndFollowsNoRedirect(t *testing.T) {
	for name, status := range map[string]int{"an error of the server": http.StatusInternalServerError, "throttling": http.StatusTooManyRequests, "a redirect": http.StatusTemporaryRedirect} {
		s := newService(t)
		all, m := withSecret(s)
		a := connect(t, New(Options{LocalEndpoints: true}), all, m)
		s.respond = func(w http.ResponseWriter, _ *http.Request, _ url.Values) bool {
			w.Header().Set("Location", s.URL+"/elsewhere")
			w.WriteHeader(status)
			return true
		}
		if _, err := sts.NewFromConfig(a.Config).GetCallerIdentity(context.Background(), nil); err == nil {
			t.Errorf("%s: want an error", name)
		}
		if got := s.actions(); got != "GetCallerIdentity GetCallerIdentity" {
			t.Errorf("%s: got calls %s", name, got)
		}
	}
}

func TestALargeResponseIsNotRead(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	s.respond = func(w http.ResponseWriter, _ *http.Request, _ url.Values) bool {
		_, _ = w.Write([]byte("<a>"))
		for range maxUntrustedResponse >> 16 {
			_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<16))
		}
		return true
	}
	_, err := New(Options{LocalEndpoints: true}).Connect(context.Background(), all, m)
	// The connection is closed, which may be seen first.
	if err == nil || !strings.Contains(err.Error(), "is larger than 1048576 bytes") && !strings.Contains(err.Error(), "use of closed network connection") {
		t.Errorf("got %v", err)
	}
}

// TestABodyKeepsItsSlot has a service of a namespace send headers, and never the end of its bodies.
func TestABodyKeepsItsSlot(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hang)
	c := newClient(settings{Namespace: "team", CA: "x"}, &http.Transport{})
	if c.http.Timeout > 15*time.Second {
		t.Errorf("a request takes up to %s", c.http.Timeout)
	}
	get := func() (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Do(r)
	}
	var open []*http.Response
	for range maxConcurrent {
		response, err := get()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, response)
		defer func() { _ = response.Body.Close() }()
	}
	began := time.Now()
	response, err := get()
	var refused *external.OpError
	if !errors.As(err, &refused) || refused.RetryAfter == 0 || refused.Class != external.Rejected || time.Since(began) > 2*maxQueueTime {
		t.Errorf("after %s: %v, %v", time.Since(began), response, err)
	}
	_ = open[0].Body.Close()
	response, err = get()
	if err != nil {
		t.Fatalf("after a body was closed: %v", err)
	}
	_ = response.Body.Close()
}

// TestASlowIdentityKeepsOneWorker has others wait for a moment only.
func TestASlowIdentityKeepsOneWorker(t *testing.T) {
	s := &session{turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	began := time.Now()
	_, err := s.identify(t.Context(), time.Now)
	var refused *external.OpError
	if !errors.As(err, &refused) || refused.RetryAfter == 0 || time.Since(began) > 2*maxQueueTime {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestAFailureCountsForAMoment(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	s.respond = func(w http.ResponseWriter, _ *http.Request, _ url.Values) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	now := time.Now()
	c := New(Options{LocalEndpoints: true, Now: func() time.Time { return now }})
	for range 3 {
		if _, err := c.Connect(context.Background(), all, m); err == nil {
			t.Error("want an error")
		}
	}
	if got := s.actions(); got != "GetCallerIdentity" {
		t.Errorf("got calls %s", got)
	}
	now = now.Add(retryIdentify)
	_, _ = c.Connect(context.Background(), all, m)
	if got := s.actions(); got != "GetCallerIdentity GetCallerIdentity" {
		t.Errorf("got calls %s", got)
	}
}

func TestUnusedSessionsEnd(t *testing.T) {
	s := newService(t)
	now := time.Now()
	c := New(Options{LocalEndpoints: true, Now: func() time.Time { return now }})
	all, m := withSecret(s)
	connect(t, c, all, m)
	now = now.Add(idle + time.Minute)
	other, n := forCluster(s, map[string]any{"source": "Secret", "secretRef": map[string]any{"name": "key", "namespace": "system"}})
	other.secret("system", "key", map[string]string{"accessKeyId": "AKIATHREE", "secretAccessKey": "third-secret"})
	connect(t, c, other, n)
	if got := len(c.sessions.all); got != 1 {
		t.Errorf("got %d sessions", got)
	}
	for i := range maxSessions + 5 {
		set := settings{Spec: v1alpha1.ProviderConfigSpec{Region: fmt.Sprintf("eu-central-%d", i), Credentials: v1alpha1.Credentials{Source: v1alpha1.CredentialsSecret}}}
		now = now.Add(time.Millisecond)
		if _, err := c.sessions.get(context.Background(), c.options, set); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(c.sessions.all); got != maxSessions {
		t.Errorf("got %d sessions", got)
	}
}

// TestANamespaceEndsItsOwnSessionsOnly has a namespace with more configurations than have sessions.
func TestANamespaceEndsItsOwnSessionsOnly(t *testing.T) {
	now := time.Now()
	o := Options{Now: func() time.Time { return now }}
	var all sessions
	get := func(namespace string, i int) *session {
		t.Helper()
		now = now.Add(time.Millisecond)
		s, err := all.get(context.Background(), o, settings{Namespace: namespace, Spec: v1alpha1.ProviderConfigSpec{
			Region: fmt.Sprintf("eu-central-%d", i), Credentials: v1alpha1.Credentials{Source: v1alpha1.CredentialsSecret},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	shared, other := get("", 0), get("other", 0)
	for i := range maxSessions + 5 {
		get("attacker", i)
	}
	if got := len(all.all); got != maxNamespaceSessions+2 {
		t.Errorf("got %d sessions", got)
	}
	if get("", 0) != shared || get("other", 0) != other {
		t.Error("a session of others has ended")
	}
}

func TestServicesHaveEndpointsOfTheirOwn(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	all["ProviderConfig/team/default"]["spec"].(map[string]any)["endpoint"] = map[string]any{
		"services": []any{map[string]any{"name": "sts", "url": s.URL}}, "caSecretRef": map[string]any{"name": "ca"},
	}
	a := connect(t, New(Options{LocalEndpoints: true}), all, m)
	if a.Config.BaseEndpoint != nil || a.Scope() != "team/123456789012/eu-central-1" {
		t.Errorf("got endpoint %v, scope %q", a.Config.BaseEndpoint, a.Scope())
	}
	t.Setenv("AWS_ENDPOINT_URL", "https://example.org")
	if _, err := New(Options{LocalEndpoints: true}).Connect(context.Background(), all, m); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("want an error about the environment, got %v", err)
	}
}
