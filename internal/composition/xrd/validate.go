package xrd

import (
	"maps"
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Validate lists the problems that keep the kinds of a definition from being served. Author's fields with the name of
// one of Crossplane's fields are no problem; Warnings lists them.
func Validate(d *v1.CompositeResourceDefinition) diag.List {
	var out diag.List
	checkIdentity(d, &out)
	checkScope(d, &out)
	checkClaimNames(d, &out)
	checkConversion(d.Spec.Conversion, &out)
	if s := d.Spec.DefaultCompositionRevisionSelector; s != nil {
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			out.Addf("spec.defaultCompositionRevisionSelector", "selects nothing: %v", err)
		}
	}
	checkInstanceOverrides(d, &out)
	checkVersions(d, &out)
	return out.Sorted()
}

func checkIdentity(d *v1.CompositeResourceDefinition, out *diag.List) {
	if want := d.Spec.Names.Plural + "." + d.Spec.Group; d.Name != want {
		out.Addf("metadata.name", "must be <spec.names.plural>.<spec.group>, %q, not %q", want, d.Name)
	}
	for _, problem := range validation.IsDNS1123Subdomain(d.Spec.Group) {
		out.Addf("spec.group", "is not a valid API group: %s", problem)
	}
	if problem := object.GroupProblem(d.Spec.Group); problem != "" {
		out.Addf("spec.group", "%s", problem)
	}
	if d.Spec.Metadata != nil {
		for _, key := range slices.Sorted(maps.Keys(d.Spec.Metadata.Annotations)) {
			if problem := object.KindAnnotationProblem(key); problem != "" {
				out.Addf(object.Path("spec.metadata.annotations").Field(key), "%s", problem)
			}
		}
	}
	checkNames(&d.Spec.Names, "spec.names", out)
}

func checkNames(n *extv1.CustomResourceDefinitionNames, at object.Path, out *diag.List) {
	labels := map[string][]string{"kind": {strings.ToLower(n.Kind)}, "plural": {n.Plural}, "shortNames": n.ShortNames, "categories": n.Categories}
	if n.Singular != "" {
		labels["singular"] = []string{n.Singular}
	}
	if n.ListKind != "" {
		labels["listKind"] = []string{strings.ToLower(n.ListKind)}
	}
	for field, values := range labels {
		for _, value := range values {
			for _, problem := range validation.IsDNS1035Label(value) {
				out.Addf(at.Field(field), "cannot be %q: %s", value, problem)
			}
		}
	}
}

func checkScope(d *v1.CompositeResourceDefinition, out *diag.List) {
	scope := d.ScopeOrDefault()
	switch scope {
	case v1.LegacyClusterScope:
		return
	case v1.NamespacedScope, v1.ClusterScope:
	default:
		out.Add(diag.Diagnostic{Path: "spec.scope", Problem: "is " + string(scope), Expected: "Namespaced, Cluster or LegacyCluster"})
		return
	}
	if d.Spec.ClaimNames != nil {
		out.Addf("spec.claimNames", "require scope LegacyCluster; composites of scope %s are used directly", scope)
	}
	if len(d.Spec.ConnectionSecretKeys) > 0 {
		out.Addf("spec.connectionSecretKeys", "require scope LegacyCluster; composites of scope %s compose a Secret instead", scope)
	}
}

func checkClaimNames(d *v1.CompositeResourceDefinition, out *diag.List) {
	if d.Spec.ClaimNames == nil {
		return
	}
	checkNames(d.Spec.ClaimNames, "spec.claimNames", out)
	composite, claim := withDefaultNames(d.Spec.Names), withDefaultNames(*d.Spec.ClaimNames)
	for _, same := range []struct{ field, one, other string }{
		{"kind", claim.Kind, composite.Kind}, {"plural", claim.Plural, composite.Plural},
		{"singular", claim.Singular, composite.Singular}, {"listKind", claim.ListKind, composite.ListKind},
	} {
		if same.one == same.other {
			out.Addf(object.Path("spec.claimNames").Field(same.field), "must differ from that of the composite kind, %q", same.one)
		}
	}
	for _, name := range claim.ShortNames {
		if slices.Contains(composite.ShortNames, name) {
			out.Addf("spec.claimNames.shortNames", "must not have %q, which the composite kind has", name)
		}
	}
}

// withDefaultNames adds the API server's defaults to the names.
func withDefaultNames(n extv1.CustomResourceDefinitionNames) extv1.CustomResourceDefinitionNames {
	if n.Singular == "" {
		n.Singular = strings.ToLower(n.Kind)
	}
	if n.ListKind == "" {
		n.ListKind = n.Kind + "List"
	}
	return n
}

func checkConversion(c *extv1.CustomResourceConversion, out *diag.List) {
	if c == nil {
		return
	}
	switch c.Strategy {
	case extv1.NoneConverter:
		if c.Webhook != nil {
			out.Addf("spec.conversion.webhook", "requires strategy Webhook")
		}
	case extv1.WebhookConverter:
		if c.Webhook == nil || c.Webhook.ClientConfig == nil {
			out.Addf("spec.conversion.webhook", "must have a clientConfig, because the strategy is Webhook")
		} else if len(c.Webhook.ConversionReviewVersions) == 0 {
			out.Addf("spec.conversion.webhook.conversionReviewVersions", "is required")
		}
	default:
		out.Add(diag.Diagnostic{Path: "spec.conversion.strategy", Problem: "is " + string(c.Strategy), Expected: "None or Webhook"})
	}
}

func checkVersions(d *v1.CompositeResourceDefinition, out *diag.List) {
	if len(d.Spec.Versions) == 0 {
		out.Addf("spec.versions", "must have at least one version")
		return
	}
	referenceable, seen := 0, map[string]bool{}
	for i := range d.Spec.Versions {
		v, at := &d.Spec.Versions[i], object.Path("spec.versions").Index(i)
		for _, problem := range validation.IsDNS1035Label(v.Name) {
			out.Addf(at.Field("name"), "cannot be %q: %s", v.Name, problem)
		}
		if seen[v.Name] {
			out.Addf(at.Field("name"), "is a duplicate: %q", v.Name)
		}
		seen[v.Name] = true
		if v.Referenceable {
			referenceable++
			if referenceable > 1 {
				out.Addf(at.Field("referenceable"), "is true for more than one version; exactly one version can be referenceable")
			}
			if !v.Served {
				out.Addf(at.Field("served"), "must be true for the referenceable version")
			}
		}
		checkVersion(d, i, at, out)
	}
	if referenceable == 0 {
		out.Addf("spec.versions", "must have a referenceable version")
	}
}

func checkVersion(d *v1.CompositeResourceDefinition, i int, at object.Path, out *diag.List) {
	v := &d.Spec.Versions[i]
	if v.DeprecationWarning != nil && (v.Deprecated == nil || !*v.Deprecated) {
		out.Addf(at.Field("deprecationWarning"), "requires deprecated: true")
	}
	for j, c := range v.AdditionalPrinterColumns {
		at := at.Field("additionalPrinterColumns").Index(j)
		if !slices.Contains([]string{"boolean", "date", "integer", "number", "string"}, c.Type) {
			out.Add(diag.Diagnostic{Path: at.Field("type"), Problem: "is " + c.Type, Expected: "boolean, date, integer, number or string"})
		}
		if c.Name == "" {
			out.Addf(at.Field("name"), "is required")
		}
		if c.JSONPath == "" {
			out.Addf(at.Field("jsonPath"), "is required")
		}
	}
	if v.Subresources != nil && v.Subresources.Scale != nil {
		checkScale(v.Subresources.Scale, at.Field("subresources", "scale"), out)
	}
	checkSchema(d, i, at.Field("schema", "openAPIV3Schema"), out)
}

func checkScale(s *extv1.CustomResourceSubresourceScale, at object.Path, out *diag.List) {
	if !strings.HasPrefix(s.SpecReplicasPath, ".spec.") {
		out.Addf(at.Field("specReplicasPath"), "must be below .spec, not %q", s.SpecReplicasPath)
	}
	if !strings.HasPrefix(s.StatusReplicasPath, ".status.") {
		out.Addf(at.Field("statusReplicasPath"), "must be below .status, not %q", s.StatusReplicasPath)
	}
	if p := s.LabelSelectorPath; p != nil && *p != "" && !strings.HasPrefix(*p, ".spec.") && !strings.HasPrefix(*p, ".status.") {
		out.Addf(at.Field("labelSelectorPath"), "must be below .spec or .status, not %q", *p)
	}
}
