package definition

import (
	"github.com/espalier-dev/espalier/internal/serving"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Reasons of a kind that isn't ready because of its versions.
const (
	kindNotConverted     = "ConversionNotServed"
	kindAwaitsConversion = "AwaitingConversion"
)

// Conversions says where the API server has instances converted.
type Conversions interface {
	// Endpoint is nil while that isn't known; planned says whether it will be.
	Endpoint() (at *install.Endpoint, planned bool)
}

// convertAt has the API server convert instances where it is to, if they have to be
// converted. It returns false, with the reason told, while nobody does: without
// conversion fields would be lost. The current CustomResourceDefinition is nil for none.
func (r *Dialect) convertAt(v *session, wanted, current *apiextensionsv1.CustomResourceDefinition) bool {
	if !kind.Converts(wanted) {
		return true
	}
	var (
		at      *install.Endpoint
		planned bool
	)
	if r.Conversions != nil {
		at, planned = r.Conversions.Endpoint()
	}
	if at != nil {
		install.ConvertAt(wanted, *at)
		return true
	}
	install.ConvertAt(wanted, install.Endpoint{})
	switch {
	case planned && current != nil && install.ConvertedBy(current) == install.ConvertedBy(wanted):
		wanted.Spec.Conversion = current.Spec.Conversion // nothing has changed but that this program has begun anew
		return true
	case planned:
		*v.readiness = serving.Readiness{Unknown: true, Reason: kindAwaitsConversion, Message: "waiting for the webhook of this program that converts instances between versions; it is only starting"}
	default:
		*v.readiness = serving.Readiness{Reason: kindNotConverted, Message: "the fields of the versions differ, so that instances have to be converted by a webhook, and this program serves none. " +
			"Run it with --webhook-bind-address and --webhook-service or --webhook-url, or with --webhook for 'espalier up'; what was published before is served until then"}
	}
	return false
}
