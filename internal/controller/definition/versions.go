package definition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/controller/publish"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Reasons of a kind that isn't ready because of its versions.
const (
	kindNotConverted     = "ConversionNotServed"
	kindAwaitsConversion = "AwaitingConversion"
	kindStillStored      = "VersionStillStored"
	kindInconvertible    = "ConversionFails"
)

// Conversions says where the API server has instances converted.
type Conversions interface {
	// Endpoint is nil while that isn't known; planned says whether it will be.
	Endpoint() (at *crd.Endpoint, planned bool)
}

// converted has the API server convert instances where it is to, if they have to be
// converted. It returns false, with the reason told, while nobody does: without
// conversion fields would be lost. The current CustomResourceDefinition is nil for none.
func (r *Reconciler) converted(v *visit, wanted, current *apiextensionsv1.CustomResourceDefinition) bool {
	if !crd.Converts(wanted) {
		return true
	}
	var (
		at      *crd.Endpoint
		planned bool
	)
	if r.Conversions != nil {
		at, planned = r.Conversions.Endpoint()
	}
	if at != nil {
		crd.ConvertAt(wanted, *at)
		return true
	}
	crd.ConvertAt(wanted, crd.Endpoint{})
	switch {
	case planned && current != nil && crd.ConvertedBy(current) == crd.ConvertedBy(wanted):
		wanted.Spec.Conversion = current.Spec.Conversion // nothing has changed but that this program has begun anew
		return true
	case planned:
		v.kind = publish.Standing{Unknown: true, Reason: kindAwaitsConversion, Message: "waiting for the webhook of this program that converts instances between versions; it is only starting"}
	default:
		v.kind = publish.Standing{Reason: kindNotConverted, Message: "the fields of the versions differ, so that instances have to be converted by a webhook, and this program serves none. " +
			"Run it with --webhook-bind-address and --webhook-service or --webhook-url, or with --webhook for 'espalier up'; what was published before is served until then"}
	}
	return false
}

// stranded says whether instances may be stored in a version that would be no more. The
// API server would refuse that in words of its own.
func stranded(v *visit, wanted, current *apiextensionsv1.CustomResourceDefinition) bool {
	var lost []string
	for _, stored := range current.Status.StoredVersions {
		if !slices.ContainsFunc(wanted.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool { return version.Name == stored }) {
			lost = append(lost, stored)
		}
	}
	if len(lost) == 0 {
		return false
	}
	advice := "List it in spec.schema.versions until they have been rewritten; that begins by itself once the definition is served so"
	if crd.Hub(current) == crd.Hub(wanted) {
		advice = "They are being rewritten, and then it goes"
	}
	v.kind = publish.Standing{Reason: kindStillStored, Message: fmt.Sprintf("instances may still be stored in %s (status.storedVersions of CustomResourceDefinition %s). %s",
		strings.Join(lost, ", "), wanted.Name, advice)}
	return true
}

// mostTold bounds how many instances a message names.
const mostTold = 3

// tryConversions converts the instances that there are, before anybody reads them so: one
// that can't be would keep all from being listed. It does so when what is said of the
// versions has changed, and not where the author accepts what breaks.
func (r *Reconciler) tryConversions(ctx context.Context, v *visit, wanted, current *apiextensionsv1.CustomResourceDefinition) (inconvertible bool, err error) {
	hub := crd.Hub(current)
	same := crd.ConvertedBy(wanted) == crd.ConvertedBy(current) && crd.Hub(wanted) == hub
	if same || !crd.Converts(wanted) || !crd.Established(current) || v.raw.GetAnnotations()[v1alpha1.AllowBreakingAnnotation] == "true" {
		return false, nil
	}
	converter, err := crd.Converter(wanted)
	if err != nil {
		return false, err
	}
	if !converter.Knows(hub) {
		return false, nil
	}
	instances, err := r.Cluster.List(ctx, crd.GroupKind(current).WithVersion(hub), "")
	if err != nil {
		return false, err
	}
	var failed int
	var told []string
	for i := range instances {
		for _, version := range wanted.Spec.Versions {
			if !version.Served {
				continue
			}
			if _, err := converter.Convert(instances[i].Object, version.Name); err != nil {
				if failed++; len(told) < mostTold {
					told = append(told, err.Error())
				}
				break
			}
		}
	}
	if failed == 0 {
		return false, nil
	}
	text := strings.Join(told, "; ")
	if failed > len(told) {
		text += fmt.Sprintf("; and %d more", failed-len(told))
	}
	v.kind = publish.Standing{Reason: kindInconvertible, Message: fmt.Sprintf("%d of %d instances can't be converted, and would keep all from being read: %s. "+
		"Change the conversion or the instances; what was published before is served until then", failed, len(instances), text)}
	return true, nil
}

// Definitions lists, sorted, the definitions that there are.
func (g *Registry) Definitions() []object.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []object.Key
	for key := range g.entries {
		out = append(out, key)
	}
	slices.SortFunc(out, object.Key.Compare)
	return out
}
