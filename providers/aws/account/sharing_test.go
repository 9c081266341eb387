package account

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

func TestAConfigurationOfANamespaceHasNoIdentityOfTheProcess(t *testing.T) {
	clean(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-process")
	for _, source := range []string{"Default", "Profile", "WebIdentity", "PodIdentity"} {
		s := newService(t)
		all, m := withSecret(s)
		all["ProviderConfig/team/default"]["spec"].(map[string]any)["credentials"] = map[string]any{"source": source, "profile": "prod"}
		_, err := New(Options{LocalEndpoints: true}).Connect(context.Background(), all, m)
		var denied *external.NotAllowedError
		if !errors.As(err, &denied) || !strings.Contains(denied.Message, "--aws-namespaced-identity") || len(s.calls) != 0 {
			t.Errorf("%s: %d calls, got %v", source, len(s.calls), err)
		}
		// With the flag, it may have one, but nothing of the namespace receives it.
		for _, endpoint := range []map[string]any{
			{"url": s.URL}, {"caSecretRef": map[string]any{"name": "ca"}}, {"services": []any{map[string]any{"name": "sts", "url": s.URL}}},
		} {
			all["ProviderConfig/team/default"]["spec"].(map[string]any)["endpoint"] = endpoint
			_, err := New(Options{LocalEndpoints: true, NamespacedIdentity: true}).Connect(context.Background(), all, m)
			if !errors.As(err, &denied) || !strings.Contains(denied.Message, "endpoint") || len(s.calls) != 0 {
				t.Errorf("%s with %v: %d calls, got %v", source, endpoint, len(s.calls), err)
			}
		}
		allowed := settings{Namespace: "team", Spec: v1alpha1.ProviderConfigSpec{
			Region: "eu-central-1", Credentials: v1alpha1.Credentials{Source: v1alpha1.CredentialsSource(source)},
		}}
		if err := (Options{NamespacedIdentity: true}).check(allowed); err != nil {
			t.Errorf("%s without an endpoint: %v", source, err)
		}
	}
}

func TestAConfigurationOfANamespaceDoesNotReachThisMachine(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	spec := all["ProviderConfig/team/default"]["spec"].(map[string]any)
	var denied *external.NotAllowedError
	// A proxy would be on this machine too.
	t.Setenv("HTTPS_PROXY", s.URL)
	for _, endpoint := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), strings.Replace(s.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1), "https://169.254.169.254", "https://[fd00:ec2::254]"} {
		spec["endpoint"].(map[string]any)["url"] = endpoint
		_, err := New(Options{}).Connect(context.Background(), all, m)
		if !errors.As(err, &denied) || !strings.Contains(denied.Message, "--aws-local-endpoints") || len(s.calls) != 0 {
			t.Errorf("%s: %d calls, got %v", endpoint, len(s.calls), err)
		}
	}
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:4566": "--aws-local-endpoints", "http://example.org": "https", "ftp://example.org": "https", "https://user@example.org": "user", "https://example.org?a": "query",
	} {
		spec["endpoint"].(map[string]any)["url"] = endpoint
		if _, err := New(Options{}).Connect(context.Background(), all, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", endpoint, err)
		}
	}
}

func TestDeniedAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true, "169.254.169.254": true, "169.254.170.23": true,
		"fe80::1%eth0": true, "fd00:ec2::254": true, "224.0.0.1": true, "255.255.255.255": true, "::ffff:169.254.169.254": true,
		"64:ff9b::a9fe:a9fe": true, "2002:7f00:1::": true,
		"::127.0.0.1": true, "::a9fe:a9fe": true, "64:ff9b:1::7f00:1": true, "64:ff9b:1:a9fe:a9:fe00::": true, "::52.94.5.1": false,
		"10.0.0.5": false, "52.94.5.1": false, "2a05:d018::1": false, "64:ff9b::345e:501": false,
	} {
		if got := denied(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %t", address, got)
		}
	}
}

func TestSecretsOfANamespaceStayThere(t *testing.T) {
	s := newService(t)
	all, m := withSecret(s)
	all.secret("other", "key", map[string]string{"accessKeyId": "AKIA", "secretAccessKey": "secret"})
	credentials := all["ProviderConfig/team/default"]["spec"].(map[string]any)["credentials"].(map[string]any)
	for reference, want := range map[string]string{"other": "only refer to Secrets in its own", "": ""} {
		credentials["secretRef"] = map[string]any{"name": "key", "namespace": reference}
		_, err := New(Options{LocalEndpoints: true}).Connect(context.Background(), all, m)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v", reference, err)
		}
	}
	all, m = forCluster(s, map[string]any{"source": "Secret", "secretRef": map[string]any{"name": "key"}})
	if _, err := New(Options{}).Connect(context.Background(), all, m); err == nil || !strings.Contains(err.Error(), "needs a namespace") {
		t.Errorf("got %v", err)
	}
}

func TestASharedConfigurationIsForItsNamespaces(t *testing.T) {
	config := func(allowed map[string]any) objects {
		all := objects{"Namespace//team": {"metadata": map[string]any{"labels": map[string]any{"aws": "yes"}}}}
		all.secret("system", "key", map[string]string{"accessKeyId": "AKIA", "secretAccessKey": "secret"})
		spec := map[string]any{
			"credentials":  map[string]any{"source": "Secret", "secretRef": map[string]any{"name": "key", "namespace": "system"}},
			"allowedTypes": []any{"AWS::EC2::*", "AWS::S3::Bucket"},
		}
		if allowed != nil {
			spec["allowedNamespaces"] = allowed
		}
		all.config("", spec)
		return all
	}
	deleted := managedIn("team", "")
	deleted.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	for name, tc := range map[string]struct {
		allowed map[string]any
		m       *unstructured.Unstructured
		want    bool
	}{
		"all namespaces":                      {nil, managedIn("team", ""), true},
		"none":                                {map[string]any{}, managedIn("team", ""), false},
		"one that is named":                   {map[string]any{"names": []any{"team"}}, managedIn("team", ""), true},
		"another one":                         {map[string]any{"names": []any{"other"}}, managedIn("team", ""), false},
		"one with a label":                    {map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"aws": "yes"}}}, managedIn("team", ""), true},
		"one without the label":               {map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"aws": "no"}}}, managedIn("team", ""), false},
		"a cluster-scoped managed resource":   {map[string]any{}, managedIn("", ""), true},
		"a managed resource that is deleted":  {map[string]any{}, deleted, true},
		"a cluster-scoped one and another's":  {nil, managedIn("", "ProviderConfig"), false},
		"an unknown kind of a configuration":  {nil, managedIn("team", "Config"), false},
		"a configuration that does not exist": {nil, managedIn("team", "ProviderConfig"), false},
	} {
		if _, _, err := (Options{}).read(config(tc.allowed), tc.m); (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, shared, err := Options{}.read(config(nil), managedIn("team", ""))
	if err != nil {
		t.Fatal(err)
	}
	var denied *external.NotAllowedError
	if err := shared.checkType("AWS::IAM::Role"); !errors.As(err, &denied) || !strings.Contains(denied.Message, "spec.allowedTypes") {
		t.Errorf("got %v", err)
	}
	for _, allowed := range []string{"AWS::EC2::VPC", "AWS::S3::Bucket"} {
		if err := shared.checkType(allowed); err != nil {
			t.Error(err)
		}
	}
	if got := shared.adoptionDenied(); !strings.Contains(got, "ForeignResources") {
		t.Errorf("got %q", got)
	}
	shared.Allow = []v1alpha1.Allowance{v1alpha1.AllowEverything}
	if got := shared.adoptionDenied() + (sharing{}).adoptionDenied(); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestADeletedObjectThatIsNotAllowedAdoptsNothing has an object with a finalizer and an external-name
// annotation that somebody sets by hand and deletes: what is bound is deleted with it, and nothing else.
func TestADeletedObjectThatIsNotAllowedAdoptsNothing(t *testing.T) {
	all := objects{}
	all.secret("system", "key", map[string]string{"accessKeyId": "AKIA", "secretAccessKey": "secret"})
	spec := map[string]any{
		"credentials":  map[string]any{"source": "Secret", "secretRef": map[string]any{"name": "key", "namespace": "system"}},
		"allowedTypes": []any{"AWS::EC2::*"}, "allow": []any{"ForeignResources"}, "allowedNamespaces": map[string]any{"names": []any{"team"}},
	}
	all.config("", spec)
	for name, tc := range map[string]struct{ namespace, typeName, want string }{
		"allowed":              {"team", "AWS::EC2::VPC", ""},
		"another namespace":    {"evil", "AWS::EC2::VPC", "spec.allowedNamespaces"},
		"a type of no pattern": {"team", "AWS::S3::Bucket", "spec.allowedTypes"},
	} {
		m := managedIn(tc.namespace, "")
		m.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		_, shared, err := Options{}.read(all, m)
		if err != nil {
			t.Errorf("%s: what is bound cannot be deleted: %v", name, err)
		}
		got := (&Account{sharing: shared}).AdoptionDenied(tc.typeName)
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
