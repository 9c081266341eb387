package postgresql

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var errNotYet = errors.New("it is being looked up")

// shelf holds objects by kind, namespace and name; a nil one is being looked up.
type shelf map[string]map[string]any

func (s shelf) Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object, there := s[kind.Kind+" "+namespace+"/"+name]
	switch {
	case !there:
		return nil, nil
	case object == nil:
		return nil, fmt.Errorf("%s %s: %w", kind.Kind, name, errNotYet)
	}
	return &unstructured.Unstructured{Object: object}, nil
}

func holding(texts ...string) map[string]any {
	data := map[string]any{}
	for i := 0; i < len(texts); i += 2 {
		data[texts[i]] = base64.StdEncoding.EncodeToString([]byte(texts[i+1]))
	}
	return map[string]any{"data": data}
}

func spec(fields map[string]any) map[string]any { return map[string]any{"spec": fields} }

func TestWhatAConfigurationSays(t *testing.T) {
	ref := func(namespace string) map[string]any {
		secret := map[string]any{"name": "login"}
		if namespace != "" {
			secret["namespace"] = namespace
		}
		return map[string]any{"secretRef": secret}
	}
	login := holding("username", "admin", "password", "word", "endpoint", "db.example", "port", "6432")
	cases := map[string]struct {
		objects shelf
		ref     *resource.ProviderConfigReference
		scope   string
		says    string
		notYet  bool
	}{
		"without a kind it is the cluster's": {
			objects: shelf{"ClusterProviderConfig /default": spec(map[string]any{"host": "DB.example", "port": int64(5433), "credentials": ref("infra")}), "Secret infra/login": login},
			scope:   "db.example:5433",
		},
		"what it doesn't say the Secret does": {
			objects: shelf{"ClusterProviderConfig /default": spec(map[string]any{"credentials": ref("infra")}), "Secret infra/login": login},
			scope:   "db.example:6432",
		},
		"a namespace's own has its Secrets there": {
			objects: shelf{"ProviderConfig team/mine": spec(map[string]any{"host": "h", "credentials": ref("")}), "Secret team/login": login},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, scope: "team/h:6432",
		},
		"and can't make itself out to be another by its Secret": {
			objects: shelf{"ProviderConfig team/mine": spec(map[string]any{"credentials": ref("")}), "Secret team/login": holding("username", "admin", "endpoint", "a:1/../other")},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, says: "is neither a name, an address nor a socket's directory",
		},
		"nor by several hosts at once": {
			objects: shelf{"ProviderConfig team/mine": spec(map[string]any{"host": "a,b", "credentials": ref("")}), "Secret team/login": login},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, says: "is neither a name, an address nor a socket's directory",
		},
		"the cluster's can have a socket": {
			objects: shelf{"ClusterProviderConfig /default": spec(map[string]any{"host": "/run/postgresql", "credentials": ref("infra")}), "Secret infra/login": login},
			scope:   "/run/postgresql:6432",
		},
		"and nowhere else": {
			objects: shelf{"ProviderConfig team/mine": spec(map[string]any{"host": "h", "credentials": ref("infra")}), "Secret infra/login": login},
			ref:     &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}, says: "is in namespace infra",
		},
		"the cluster's says where they are": {
			objects: shelf{"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": ref("")})}, says: "needs a namespace",
		},
		"there is none": {says: "there is no ClusterProviderConfig default"},
		"there is no Secret": {
			objects: shelf{"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": ref("infra")})}, says: "there is no Secret infra/login",
		},
		"it is of another kind": {ref: &resource.ProviderConfigReference{Kind: "Config", Name: "x"}, says: `kind is "Config"`},
		"what is still being read is no failure": {
			objects: shelf{"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": ref("infra")}), "Secret infra/login": nil}, notYet: true,
		},
		"nor is a configuration that is": {objects: shelf{"ClusterProviderConfig /default": nil}, notYet: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Options{}.configured(tc.objects, "team", tc.ref)
			switch {
			case tc.notYet && !errors.Is(err, errNotYet):
				t.Errorf("it is said: %v", err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("it is said: %v", err)
			case tc.scope != "" && err != nil:
				t.Error(err)
			case tc.scope != "" && (got.scope() != tc.scope || got.User != "admin" || got.Password != "word" || got.TLS != v1alpha1.TLSVerifyFull || got.Timeout != time.Minute):
				t.Errorf("it is %s, with TLS %s", got.scope(), got.TLS)
			}
		})
	}
}

// TestNothingComesOfTheEnvironment sets what other programs connect by.
func TestNothingComesOfTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{"PGPASSWORD": "x", "PGUSER": "x", "PGDATABASE": "x", "PGHOST": "x", "PGOPTIONS": "-c role=x", "PGSSLMODE": "disable", "PGTARGETSESSIONATTRS": "read-write", "PGAPPNAME": "x",
		"PGREQUIREAUTH": "none", "PGSSLNEGOTIATION": "direct", "PGCONNECT_TIMEOUT": "x", "PGMAXPROTOCOLVERSION": "x", "PGMINPROTOCOLVERSION": "x", "PGCHANNELBINDING": "require", "PGTZ": "x"} {
		t.Setenv(name, value)
	}
	c, err := server{Host: "h", Port: 1, User: "u", ServerName: "h", TLS: v1alpha1.TLSVerifyFull, Timeout: time.Second}.dialled("d")
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "h" || c.User != "u" || c.Password != "" || c.Database != "d" || c.TLSConfig == nil || c.TLSConfig.InsecureSkipVerify || len(c.Fallbacks) > 0 || c.ValidateConnect != nil {
		t.Errorf("it connects to %s as %s", c.Host, c.User)
	}
	if c.RequireAuth != "" || c.SSLNegotiation == "direct" || c.ChannelBinding != "prefer" || c.RuntimeParams["timezone"] != "" {
		t.Errorf("it asks for %q, %q, %q", c.RequireAuth, c.SSLNegotiation, c.ChannelBinding)
	}
	if c.RuntimeParams["options"] != "" || c.RuntimeParams["application_name"] != "espalier" || c.RuntimeParams["search_path"] != "pg_catalog" {
		t.Errorf("its parameters are %v", c.RuntimeParams)
	}
}

func TestTheConnectionAsOneText(t *testing.T) {
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
				t.Errorf("it is %s, and was to be %s", c["uri"], tc.want)
			}
		})
	}
}

// TestTheServerGivesUpFirst is about who ends a statement that takes too long: the
// server's answer tells what came of it, and giving up tells nothing.
func TestTheServerGivesUpFirst(t *testing.T) {
	v := &visit{server: server{Timeout: time.Minute}}
	for _, kind := range Provider(Options{}).Kinds {
		if limit := kind.Port().Timeout; limit < v.patience() {
			t.Errorf("%s: a call ends after %s, and the answer is waited for %s", kind.Port().GVK.Kind, limit, v.patience())
		}
	}
}
