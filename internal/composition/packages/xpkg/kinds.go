package xpkg

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	graphs "github.com/espalier-dev/espalier/api/v1alpha1"

	metav1 "github.com/espalier-dev/espalier/api/pkg/meta/v1"
)

// kind is a kind that a package may contain.
type kind struct {
	versions []string
	// in are the types of packages that install it. Crossplane reads it in all others and installs nothing.
	in []string
}

var (
	byProviders      = []string{metav1.ProviderKind}
	byConfigurations = []string{metav1.ConfigurationKind}
)

const (
	crossplane = "apiextensions.crossplane.io"
	admission  = "admissionregistration.k8s.io"
)

// kinds are the kinds that Crossplane's parser accepts, and graph definitions. A package with another kind is refused.
var kinds = map[schema.GroupKind]kind{
	// Of a Function, the kinds of inputs, which are for editors: Installs leaves them out.
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {[]string{"v1", "v1beta1"}, []string{metav1.ProviderKind, metav1.FunctionKind}},
	{Group: crossplane, Kind: "ManagedResourceDefinition"}:            {[]string{"v1alpha1"}, byProviders},
	{Group: admission, Kind: "ValidatingWebhookConfiguration"}:        {[]string{"v1"}, byProviders},
	{Group: admission, Kind: "MutatingWebhookConfiguration"}:          {[]string{"v1"}, byProviders},
	{Group: crossplane, Kind: "CompositeResourceDefinition"}:          {[]string{"v1", "v2"}, byConfigurations},
	{Group: crossplane, Kind: "Composition"}:                          {[]string{"v1"}, byConfigurations},
	{Group: crossplane, Kind: "ManagedResourceActivationPolicy"}:      {[]string{"v1alpha1"}, byConfigurations},
	{Group: "ops.crossplane.io", Kind: "Operation"}:                   {[]string{"v1alpha1"}, byConfigurations},
	{Group: "ops.crossplane.io", Kind: "CronOperation"}:               {[]string{"v1alpha1"}, byConfigurations},
	{Group: "ops.crossplane.io", Kind: "WatchOperation"}:              {[]string{"v1alpha1"}, byConfigurations},
	{Group: "kro.run", Kind: graphs.ResourceGraphDefinitionKind}:      {[]string{"v1alpha1"}, byConfigurations},
	{Group: crossplane, Kind: "CompositionRevision"}:                  {[]string{"v1"}, nil},
	{Group: crossplane, Kind: "Usage"}:                                {[]string{"v1alpha1"}, nil},
	{Group: admission, Kind: "ValidatingAdmissionPolicy"}:             {[]string{"v1"}, nil},
	{Group: admission, Kind: "ValidatingAdmissionPolicyBinding"}:      {[]string{"v1"}, nil},
}

// metaVersions are the versions of the metadata, the newest first.
var metaVersions = []string{"v1", "v1beta1", "v1alpha1"}

// installedBy are the names of the kinds that a type of package installs, in order.
func installedBy(packageType string) (out []string) {
	for gk, k := range kinds {
		if slices.Contains(k.in, packageType) {
			out = append(out, gk.Kind)
		}
	}
	slices.Sort(out)
	return out
}

// kindProblem says why an object cannot be in a package of a type, or is not installed by it; empty if it is installed.
func kindProblem(gvk schema.GroupVersionKind, packageType string, withGraphs bool) (message string, warning bool) {
	k, known := kinds[gvk.GroupKind()]
	switch isGraph := gvk.Group == graphs.GroupVersion.Group; {
	case !known:
		return fmt.Sprintf("a package cannot contain %s of %s; a %s installs %s", gvk.Kind, gvk.GroupVersion(), packageType,
			strings.Join(installedBy(packageType), ", ")), false
	case !slices.Contains(k.versions, gvk.Version):
		return fmt.Sprintf("a package cannot contain version %s of it; use %s", gvk.Version, strings.Join(k.versions, " or ")), false
	case len(k.in) == 0:
		return "no package installs objects of this kind", true
	case !slices.Contains(k.in, packageType):
		return fmt.Sprintf("a %s does not install it; only a %s does", packageType, strings.Join(k.in, " or a ")), true
	case isGraph && !withGraphs:
		return fmt.Sprintf("graph definitions need the annotation %s: \"true\" on the metadata, because Crossplane cannot read a package with them",
			metav1.GraphsAnnotation), false
	}
	return "", false
}

// Installs reports whether installing the package creates an object of it.
func (p *Package) Installs(gvk schema.GroupVersionKind) bool {
	message, _ := kindProblem(gvk, p.Meta.Kind, p.withGraphs())
	return message == "" && p.Meta.Kind != metav1.FunctionKind
}

func (p *Package) withGraphs() bool {
	return p.Meta.Metadata.Annotations[metav1.GraphsAnnotation] == "true"
}
