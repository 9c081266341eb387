package kind

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// addVersions adds the further versions of a graph's kind and sorts all versions as the API
// server does, the most stable first.
func addVersions(c *apiextensionsv1.CustomResourceDefinition, g *graph.Graph) {
	rules := map[string]conversion.Rules{}
	for i := range g.Versions {
		v := &g.Versions[i]
		added := *c.Spec.Versions[0].DeepCopy() // the graph's version
		added.Name, added.Served, added.Storage, added.Deprecated = v.Name, v.Served, false, v.Deprecated
		if v.Warning != "" {
			added.DeprecationWarning = &v.Warning
		}
		if v.Columns != nil {
			added.AdditionalPrinterColumns = v.Columns
		}
		added.Subresources = subresources(g, v.Name)
		added.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: rootSchema(v.Spec.DeepCopy(), report.Schema(g.Status.DeepCopy()))}
		c.Spec.Versions = append(c.Spec.Versions, added)
		if !v.Identical {
			rules[v.Name] = v.Rules
		}
	}
	slices.SortStableFunc(c.Spec.Versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int {
		return version.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	delete(c.Annotations, install.ConversionsAnnotation) // an author cannot set it
	if len(rules) == 0 {
		return
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // keep it legible
	if err := e.Encode(rules); err != nil {
		panic("crd: " + err.Error()) // rules come from JSON
	}
	c.Annotations[install.ConversionsAnnotation] = strings.TrimSpace(text.String())
}

// Converts reports whether the versions of a kind that For built need conversion.
func Converts(c *apiextensionsv1.CustomResourceDefinition) bool {
	return c.Annotations[install.ConversionsAnnotation] != ""
}

// Converter returns the converter of a kind that For built, from the conversion rules in
// its CustomResourceDefinition.
func Converter(c *apiextensionsv1.CustomResourceDefinition) (*conversion.Converter, error) {
	rules := map[string]conversion.Rules{}
	if text := c.Annotations[install.ConversionsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &rules); err != nil {
			return nil, fmt.Errorf("decode annotation %s of CustomResourceDefinition %s: %w", install.ConversionsAnnotation, c.Name, err)
		}
	}
	hub := conversion.Version{Name: crd.StorageVersion(c)}
	for i := range c.Spec.Versions {
		if v := &c.Spec.Versions[i]; v.Storage {
			hub.Spec = specSchema(v)
		}
	}
	pairs := map[string]*conversion.Pair{}
	for i := range c.Spec.Versions {
		v := &c.Spec.Versions[i]
		if v.Storage {
			continue
		}
		pair, problems := conversion.Compile(hub, conversion.Version{Name: v.Name, Spec: specSchema(v)}, rules[v.Name], conversion.Places{})
		if problems != nil {
			return nil, fmt.Errorf("compile the conversion of version %s of CustomResourceDefinition %s: %w", v.Name, c.Name, problems.Err())
		}
		pairs[v.Name] = pair
	}
	return conversion.New(crd.GroupKind(c), hub.Name, pairs), nil
}

func specSchema(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil
	}
	if spec, ok := v.Schema.OpenAPIV3Schema.Properties["spec"]; ok {
		return &spec
	}
	return nil
}
