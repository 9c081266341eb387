package simulation

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// offlineEndpoint is that of the conversion webhook of controllers without an API server: the overlay converts instead.
var offlineEndpoint = install.Endpoint{URL: "https://conversions.offline"}

// convertObjects has an overlay convert the objects of kinds that definitions serve, as the conversion webhook does.
func convertObjects(o *dryrun.Overlay) {
	o.ConvertWith(func(c *apiextensionsv1.CustomResourceDefinition) (dryrun.Converter, error) {
		if _, ours := crd.Owner(c); !ours || !kind.Converts(c) {
			return nil, nil
		}
		converter, err := webhook.NewConverter(c)
		if err != nil {
			return nil, err
		}
		return converter, nil
	})
}

// servedEndpoint is that of the conversion webhook of the controllers that serve a cluster; nil if they serve none, or if it may not be
// read: without the webhooks, the controllers need no such permission. It is where they have the API server send the deletions of objects
// in use, since both webhooks are one server.
func servedEndpoint(ctx context.Context, client dynamic.Interface) (*install.Endpoint, error) {
	configurations := client.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"))
	o, err := configurations.Get(ctx, webhook.ConfigurationName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", webhook.ConfigurationName, err)
	}
	return endpointOf(o), nil
}

// endpointOf is the endpoint to which a webhook configuration leads; nil if it leads to none.
func endpointOf(o *unstructured.Unstructured) *install.Endpoint {
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &configuration); err != nil || len(configuration.Webhooks) == 0 {
		return nil
	}
	at := configuration.Webhooks[0].ClientConfig
	out := &install.Endpoint{CABundle: slices.Clone(at.CABundle)}
	switch {
	case at.Service != nil:
		out.Service = &apiextensionsv1.ServiceReference{Namespace: at.Service.Namespace, Name: at.Service.Name, Port: at.Service.Port}
	case at.URL != nil:
		u, err := url.Parse(*at.URL)
		if err != nil {
			return nil
		}
		out.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	default:
		return nil
	}
	return out
}

// Controlled are controllers as a simulation runs them.
type Controlled struct{ *server.Controllers }

// Idle implements Controllers.
func (c Controlled) Idle(within time.Duration) bool { return c.Engine.Idle(within) }
