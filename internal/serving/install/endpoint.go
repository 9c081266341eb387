package install

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/object"
)

// ConversionsAnnotation holds the conversion rules of the definition. With the versions' schemas
// beside it, a CustomResourceDefinition has all that is needed to convert its objects: the
// converter doesn't need the definition, and always has the same versions as the API server.
const ConversionsAnnotation = "espalier.dev/conversions"

// Endpoint is where the API server sends conversion requests.
type Endpoint struct {
	// URL has no path; if Service is set, it is used instead.
	URL      string
	Service  *apiextensionsv1.ServiceReference
	CABundle []byte
}

// ConversionPath is the prefix of the paths of conversion requests. The name of the
// CustomResourceDefinition follows, and a digest of its versions and conversion rules.
const ConversionPath = "/conversions/"

// SetConversion makes the API server send conversion requests to an endpoint. The path names the digest of the rules,
// so the converter knows whether it has them already.
func SetConversion(c *apiextensionsv1.CustomResourceDefinition, e Endpoint) {
	path := ConversionPath + c.Name + "/" + object.Digest([]any{c.Spec.Versions, c.Annotations[ConversionsAnnotation]})
	client := &apiextensionsv1.WebhookClientConfig{CABundle: e.CABundle}
	if e.Service != nil {
		client.Service = e.Service.DeepCopy()
		client.Service.Path = &path
	} else {
		url := strings.TrimSuffix(e.URL, "/") + path
		client.URL = &url
	}
	c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: client, ConversionReviewVersions: []string{"v1"}},
	}
}

// ConversionDigest is the digest in the path of conversion requests; empty if there is no
// conversion webhook.
func ConversionDigest(c *apiextensionsv1.CustomResourceDefinition) string {
	if c.Spec.Conversion == nil || c.Spec.Conversion.Webhook == nil || c.Spec.Conversion.Webhook.ClientConfig == nil {
		return ""
	}
	client := c.Spec.Conversion.Webhook.ClientConfig
	path := ""
	switch {
	case client.Service != nil && client.Service.Path != nil:
		path = *client.Service.Path
	case client.URL != nil:
		path = *client.URL
	}
	_, rest, ok := strings.Cut(path, ConversionPath+c.Name+"/")
	if !ok {
		return ""
	}
	return rest
}
