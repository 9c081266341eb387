package simulation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func TestTheConversionWebhookIsWhereTheOtherOneIs(t *testing.T) {
	t.Parallel()
	port := int32(8443)
	const path = "/usages"
	for reason, c := range map[string]struct {
		webhooks string
		want     *install.Endpoint
	}{
		"a URL without its path":       {`[{name: a, clientConfig: {url: "https://127.0.0.1:9443` + path + `", caBundle: YQ==}}]`, &install.Endpoint{URL: "https://127.0.0.1:9443", CABundle: []byte("a")}},
		"a Service without its path":   {`[{name: a, clientConfig: {service: {namespace: "n", name: s, port: 8443, path: ` + path + `}}}]`, &install.Endpoint{Service: &apiextensionsv1.ServiceReference{Namespace: "n", Name: "s", Port: &port}}},
		"no webhooks":                  {`[]`, nil},
		"a webhook that leads nowhere": {`[{name: a, clientConfig: {}}]`, nil},
	} {
		o := testkit.Parse(t, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: usages.espalier.dev}\nwebhooks: "+c.webhooks+"\n")[0]
		if diff := cmp.Diff(c.want, endpointOf(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
}

// The controllers need no permission for webhooks if they serve none, nor does a plan.
func TestAWebhookThatMayNotBeReadIsNone(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct {
		answer error
		fails  bool
	}{
		"there is none":        {apierrors.NewNotFound(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "usages.espalier.dev"), false},
		"it may not be read":   {apierrors.NewForbidden(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "usages.espalier.dev", errors.New("no")), false},
		"the server is broken": {apierrors.NewInternalError(errors.New("etcd")), true},
	} {
		c := fakekube.New()
		c.SetBefore(func(string) error { return tc.answer })
		client, err := dynamic.NewForConfig(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		if at, err := servedEndpoint(t.Context(), client); at != nil || (err != nil) != tc.fails {
			t.Errorf("%s: %+v, %v", reason, at, err)
		}
	}
}
