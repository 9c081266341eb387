package postgresql

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var errNotSynced = errors.New("the cache is not synced")

// fakeObjects has objects by kind, namespace and name. For a nil one, the cache is not synced.
type fakeObjects map[string]map[string]any

func (s fakeObjects) Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object, there := s[kind.Kind+" "+namespace+"/"+name]
	switch {
	case !there:
		return nil, nil
	case object == nil:
		return nil, fmt.Errorf("%s %s: %w", kind.Kind, name, errNotSynced)
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// Owner returns the owner of a resource, as "Owner <type> <name>" has its namespace.
func (s fakeObjects) Owner(key external.Key) (*external.Owner, error) {
	object, exists := s["Owner "+key.Type+" "+key.Name]
	if !exists {
		return nil, nil
	}
	return &external.Owner{APIVersion: v1alpha1.GroupVersion.String(), Kind: key.Type, Namespace: object["namespace"].(string)}, nil
}

func role(namespace string) *v1alpha1.Role {
	return &v1alpha1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"}}
}

func secretData(texts ...string) map[string]any {
	data := map[string]any{}
	for i := 0; i < len(texts); i += 2 {
		data[texts[i]] = base64.StdEncoding.EncodeToString([]byte(texts[i+1]))
	}
	return map[string]any{"data": data}
}

func spec(fields map[string]any) map[string]any { return map[string]any{"spec": fields} }

func TestReadServer(t *testing.T) {
	ref := func(namespace string) map[string]any {
		secret := map[string]any{"name": "login"}
		if namespace != "" {
			secret["namespace"] = namespace
		}
		return map[string]any{"secretRef": secret}
	}
	login := secretData("username", "admin", "password", "word", "endpoint", "db.example", "port", "6432")
	cases := map[string]struct {
		objects     fakeObjects
		ref         *resource.ProviderConfigReference
		scope       string
		wantErr     string
		isNotSynced bool
	}{
		"a reference without a kind is to a ClusterProviderConfig": {
			objects: fakeObjects{"ClusterProviderConfig /default": spec(map[string]any{"host": "DB.example", "port": int64(5433), "credentials": ref("infra")}), "Secret infra/login": login},
			scope:   "db.example:5433",
		},
		"host and port can be in the Secret": {
			objects: fakeObjects{"ClusterProviderConfig /default": spec(map[string]any{"credentials": ref("infra")}), "Secret infra/login": login},
			scope:   "db.example:6432",
		},
		"a ProviderConfig has its Secrets in its namespace": {
			objects: fakeObjects{"ProviderConfig team/mine": spec(map[string]any{"host": "h", "credentials": ref("")}), "Secret team/login": login},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, scope: "team/h:6432",
		},
		"a host from a Secret is validated": {
			objects: fakeObjects{"ProviderConfig team/mine": spec(map[string]any{"credentials": ref("")}), "Secret team/login": secretData("username", "admin", "endpoint", "a:1/../other")},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, wantErr: "is not a host name, an address or the directory of a socket",
		},
		"a URI in the Secret is not repeated, since it may have the password": {
			objects: fakeObjects{"ProviderConfig team/mine": spec(map[string]any{"credentials": ref("")}), "Secret team/login": secretData("username", "admin", "endpoint", "postgresql://admin:hunter2@db.example")},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, wantErr: `the key "endpoint" of the credentials' Secret is not a host name, an address or the directory of a socket`,
		},
		"a list of hosts is rejected": {
			objects: fakeObjects{"ProviderConfig team/mine": spec(map[string]any{"host": "a,b", "credentials": ref("")}), "Secret team/login": login},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, wantErr: "is not a host name, an address or the directory of a socket",
		},
		"a ClusterProviderConfig can have a socket": {
			objects: fakeObjects{"ClusterProviderConfig /default": spec(map[string]any{"host": "/run/postgresql", "credentials": ref("infra")}), "Secret infra/login": login},
			scope:   "/run/postgresql:6432",
		},
		"a ProviderConfig has no Secrets in another namespace": {
			objects: fakeObjects{"ProviderConfig team/mine": spec(map[string]any{"host": "h", "credentials": ref("infra")}), "Secret infra/login": login},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, wantErr: "is in namespace infra",
		},
		"a ClusterProviderConfig needs the namespaces of its Secrets": {
			objects: fakeObjects{"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": ref("")})}, wantErr: "needs a namespace",
		},
		"the configuration does not exist": {wantErr: "ClusterProviderConfig default of spec.providerConfigRef does not exist"},
		"the Secret does not exist": {
			objects: fakeObjects{"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": ref("infra")})}, wantErr: "the Secret infra/login does not exist",
		},
		"the reference has an unknown kind": {ref: &resource.ProviderConfigReference{Kind: "Config", Name: "x"}, wantErr: `kind is "Config"`},
		"a Secret that is not cached yet": {
			objects: fakeObjects{"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": ref("infra")}), "Secret infra/login": nil}, isNotSynced: true,
		},
		"a configuration that is not cached yet": {objects: fakeObjects{"ClusterProviderConfig /default": nil}, isNotSynced: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _, err := Options{}.readServer(tc.objects, role("team"), tc.ref)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the password: %v", err)
			}
			switch {
			case tc.isNotSynced && !errors.Is(err, errNotSynced):
				t.Errorf("want the error of Get, got %v", err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("want an error with %q, got %v", tc.wantErr, err)
			case tc.scope != "" && err != nil:
				t.Error(err)
			case tc.scope != "" && (got.scope() != tc.scope || got.User != "admin" || got.Password != "word" || got.TLS != v1alpha1.TLSVerifyFull || got.Timeout != time.Minute):
				t.Errorf("got scope %s, user %s, TLS %s, timeout %s", got.scope(), got.User, got.TLS, got.Timeout)
			}
		})
	}
}

func TestConnectionsIgnoreEnvironmentVariables(t *testing.T) {
	for name, value := range map[string]string{"PGPASSWORD": "x", "PGUSER": "x", "PGDATABASE": "x", "PGHOST": "x", "PGOPTIONS": "-c role=x", "PGSSLMODE": "disable", "PGTARGETSESSIONATTRS": "read-write", "PGAPPNAME": "x",
		"PGREQUIREAUTH": "none", "PGSSLNEGOTIATION": "direct", "PGCONNECT_TIMEOUT": "x", "PGMAXPROTOCOLVERSION": "x", "PGMINPROTOCOLVERSION": "x", "PGCHANNELBINDING": "require", "PGTZ": "x"} {
		t.Setenv(name, value)
	}
	c, err := server{Host: "h", Port: 1, User: "u", ServerName: "h", TLS: v1alpha1.TLSVerifyFull, Timeout: time.Second}.connConfig("d")
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "h" || c.User != "u" || c.Password != "" || c.Database != "d" || c.TLSConfig == nil || c.TLSConfig.InsecureSkipVerify || len(c.Fallbacks) > 0 || c.ValidateConnect != nil {
		t.Errorf("it connects to %s as %s", c.Host, c.User)
	}
	if c.RequireAuth != "" || c.SSLNegotiation == "direct" || c.ChannelBinding != "prefer" || c.RuntimeParams["timezone"] != "" {
		t.Errorf("got require_auth %q, sslnegotiation %q, channel_binding %q", c.RequireAuth, c.SSLNegotiation, c.ChannelBinding)
	}
	if c.RuntimeParams["options"] != "" || c.RuntimeParams["application_name"] != "espalier" || c.RuntimeParams["search_path"] != "pg_catalog" {
		t.Errorf("got the parameters %v", c.RuntimeParams)
	}
}

// TestAShortTimeoutIsALimit has timeouts of less than a millisecond, the unit of the server, for which 0
// is no limit.
func TestAShortTimeoutIsALimit(t *testing.T) {
	for timeout, want := range map[time.Duration][2]string{
		time.Minute: {"60000", "30000"}, time.Millisecond: {"1", "1"}, time.Microsecond: {"1", "1"},
	} {
		c, err := server{Host: "h", Port: 1, User: "u", TLS: v1alpha1.TLSDisable, Timeout: timeout}.connConfig("d")
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{c.RuntimeParams["statement_timeout"], c.RuntimeParams["lock_timeout"]}; got != want {
			t.Errorf("with %s, the limits of statements and locks are %v ms, want %v", timeout, got, want)
		}
	}
}

func TestConnectionURI(t *testing.T) {
	cases := map[string]struct {
		server server
		want   string
	}{
		"over the network": {server{Host: "db.example", Port: 5432, TLS: "verify-full"}, "postgresql://a%40b:p%2Fw%3A@db.example:5432/my%20db?sslmode=verify-full"},
		"by IPv6":          {server{Host: "::1", Port: 5432, TLS: "disable"}, "postgresql://a%40b:p%2Fw%3A@[::1]:5432/my%20db?sslmode=disable"},
		"by a socket":      {server{Host: "/run/pg", Port: 5432, TLS: "disable"}, "postgresql://a%40b:p%2Fw%3A@/my%20db?host=%2Frun%2Fpg&port=5432&sslmode=disable"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := tc.server.connection("a@b", "my db")
			c["password"] = "p/w:"
			if tc.server.addURI(c); c["uri"] != tc.want {
				t.Errorf("got %s, want %s", c["uri"], tc.want)
			}
		})
	}
}

// TestTheServerTimesOutBeforeTheClient: the server's answer shows the outcome of a statement, a
// timeout of the client does not.
func TestTheServerTimesOutBeforeTheClient(t *testing.T) {
	sess := &session{server: server{Timeout: time.Minute}}
	for _, kind := range Provider(Options{}).Kinds {
		if limit := kind.Port().Timeout; limit < sess.callTimeout() {
			t.Errorf("%s: calls are canceled after %s, before the timeout of %s", kind.Port().GVK.Kind, limit, sess.callTimeout())
		}
	}
}
