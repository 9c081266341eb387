package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/espalier-dev/espalier/internal/conversion"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/report"
)

// conversionsAnnotation holds what the definition says of conversion. With the versions'
// schemas, which are beside it, a CustomResourceDefinition tells all that is needed to
// convert its objects: who converts needs no definition, and can't be of another mind than
// the API server about what the versions are.
const conversionsAnnotation = "espalier.dev/conversions"

// addVersions adds the further versions of a graph's kind, the most stable first, as the
// API server ranks them.
func addVersions(c *apiextensionsv1.CustomResourceDefinition, g *graph.Graph) {
	rules := map[string]conversion.Rules{}
	for i := range g.Versions {
		v := &g.Versions[i]
		added := *c.Spec.Versions[0].DeepCopy() // that of the graph
		added.Name, added.Served, added.Storage, added.Deprecated = v.Name, v.Served, false, v.Deprecated
		if v.Warning != "" {
			added.DeprecationWarning = &v.Warning
		}
		if v.Columns != nil {
			added.AdditionalPrinterColumns = v.Columns
		}
		added.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: rootOf(v.Spec, report.Schema(g.Status))}
		c.Spec.Versions = append(c.Spec.Versions, added)
		if !v.Same {
			rules[v.Name] = v.Rules
		}
	}
	slices.SortStableFunc(c.Spec.Versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int {
		return version.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	delete(c.Annotations, conversionsAnnotation) // an author's own says nothing
	if len(rules) == 0 {
		return
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // people may read it
	if err := e.Encode(rules); err != nil {
		panic("crd: " + err.Error()) // rules come from JSON
	}
	c.Annotations[conversionsAnnotation] = strings.TrimSpace(text.String())
}

// Converts says whether the objects of a kind of ours have to be converted between its
// versions.
func Converts(c *apiextensionsv1.CustomResourceDefinition) bool {
	return c.Annotations[conversionsAnnotation] != ""
}

// Hub is the version that objects are stored in.
func Hub(c *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range c.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// Outdated lists the versions, other than the one that is stored now, in which objects may
// still be stored.
func Outdated(c *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	for _, name := range c.Status.StoredVersions {
		if name != Hub(c) {
			out = append(out, name)
		}
	}
	return out
}

// Converter converts the objects of a kind of ours, by what its CustomResourceDefinition
// says.
func Converter(c *apiextensionsv1.CustomResourceDefinition) (*conversion.Converter, error) {
	rules := map[string]conversion.Rules{}
	if text := c.Annotations[conversionsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &rules); err != nil {
			return nil, fmt.Errorf("the annotation %s of CustomResourceDefinition %s can't be read: %w", conversionsAnnotation, c.Name, err)
		}
	}
	hub := conversion.Version{Name: Hub(c)}
	for i := range c.Spec.Versions {
		if v := &c.Spec.Versions[i]; v.Storage {
			hub.Spec = specOf(v)
		}
	}
	pairs := map[string]*conversion.Pair{}
	for i := range c.Spec.Versions {
		v := &c.Spec.Versions[i]
		if v.Storage {
			continue
		}
		pair, problems := conversion.Compile(hub, conversion.Version{Name: v.Name, Spec: specOf(v)}, rules[v.Name], conversion.Places{})
		if problems != nil {
			return nil, fmt.Errorf("version %s of CustomResourceDefinition %s can't be converted: %w", v.Name, c.Name, problems.Err())
		}
		pairs[v.Name] = pair
	}
	return conversion.New(GroupKind(c), hub.Name, pairs), nil
}

func specOf(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	if spec, ok := v.Schema.OpenAPIV3Schema.Properties["spec"]; ok {
		return &spec
	}
	return nil
}

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
	path := ConversionPath + c.Name + "/" + object.Digest([]any{c.Spec.Versions, c.Annotations[conversionsAnnotation]})
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
