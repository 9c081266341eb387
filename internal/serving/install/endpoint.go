package install

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/object"
)

// ConversionsAnnotation holds what the definition says of conversion. With the versions'
// schemas, which are beside it, a CustomResourceDefinition tells all that is needed to
// convert its objects: who converts needs no definition, and can't be of another mind than
// the API server about what the versions are.
const ConversionsAnnotation = "espalier.dev/conversions"

// Endpoint is where the API server has objects converted.
type Endpoint struct {
	// URL is without a path; or else Service says how the API server gets there.
	URL      string
	Service  *apiextensionsv1.ServiceReference
	CABundle []byte
}

// ConversionPath begins the paths at which objects are converted. The name of the
// CustomResourceDefinition follows, and a digest of what it says of versions.
const ConversionPath = "/conversions/"

// ConvertAt has the API server convert objects at an endpoint. The path names what they are
// to be converted by, so that who converts knows whether it has that already.
func ConvertAt(c *apiextensionsv1.CustomResourceDefinition, e Endpoint) {
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

// ConvertedBy is the digest in the path at which the API server has objects converted;
// empty if it doesn't.
func ConvertedBy(c *apiextensionsv1.CustomResourceDefinition) string {
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
