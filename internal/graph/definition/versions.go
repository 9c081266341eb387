package definition

import (
	"github.com/espalier-dev/espalier/internal/serving"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// Reasons of a kind that is not ready because of its versions.
const (
	kindNotConverted     = "ConversionNotServed"
	kindAwaitsConversion = "AwaitingConversion"
)

// Conversions provides the endpoint of the conversion webhook.
type Conversions interface {
	// Endpoint is nil while it is not known; planned reports whether it will be.
	Endpoint() (at *install.Endpoint, planned bool)
}

// convertAt sets the conversion webhook of the wanted CustomResourceDefinition if its
// versions need conversion. It returns false and reports the reason while there is no
// webhook: without conversion fields would be lost. current is nil if none exists.
func (v *session) convertAt(wanted, current *apiextensionsv1.CustomResourceDefinition) bool {
	if !kind.Converts(wanted) {
		return true
	}
	var (
		at      *install.Endpoint
		planned bool
	)
	if v.Conversions != nil {
		at, planned = v.Conversions.Endpoint()
	}
	if at != nil {
		install.SetConversion(wanted, *at)
		return true
	}
	install.SetConversion(wanted, install.Endpoint{})
	switch {
	case planned && current != nil && install.ConversionDigest(current) == install.ConversionDigest(wanted):
		wanted.Spec.Conversion = current.Spec.Conversion // only this program has restarted
		return true
	case planned:
		*v.readiness = serving.Readiness{Unknown: true, Reason: kindAwaitsConversion, Message: "waiting for the conversion webhook of this program to start"}
	default:
		*v.readiness = serving.Readiness{Reason: kindNotConverted,
			Message: "the fields of the versions differ, which requires a conversion webhook, and this program serves none. " +
				"Run it with --webhook-bind-address and --webhook-service or --webhook-url, or with --webhook for 'espalier up'. Until then the previous CustomResourceDefinition is served"}
	}
	return false
}
