package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/webhook"
)

// webhookFlags say whether and where the API server of a cluster asks before it deletes
// what is in use, and has instances converted between versions.
type webhookFlags struct {
	address, service, url, namespace string
	// replace asks for the configuration of a former Crossplane to be deleted.
	replace bool
}

func (f *webhookFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "webhook-bind-address", "0", "where the API server asks, over TLS, before it deletes what a Usage or ClusterUsage keeps, and for instances in another version; 0 for nowhere")
	flags.StringVar(&f.service, "webhook-service", "", "the service by which the API server reaches that address: namespace/name, or namespace/name:port")
	flags.StringVar(&f.url, "webhook-url", "", "the URL by which it does, where this program runs outside the cluster")
	flags.StringVar(&f.namespace, "webhook-secret-namespace", "", "where the Secret espalier-webhook with the certificate lives; by default the pod's namespace, or default")
	flags.BoolVar(&f.replace, "replace-crossplane-webhook", false, "delete ValidatingWebhookConfiguration "+webhook.ForeignName+", which keeps what is in use from being deleted when Crossplane doesn't run any more")
}

// options are nil where the API server isn't to ask.
func (f *webhookFlags) options() (*webhook.Options, error) {
	if f.address == "0" || f.address == "" {
		if f.service != "" || f.url != "" {
			return nil, &usageError{errors.New("--webhook-service and --webhook-url need --webhook-bind-address")}
		}
		return nil, nil
	}
	o := &webhook.Options{Address: f.address, URL: f.url, Namespace: f.namespace}
	if o.Namespace == "" {
		o.Namespace = manager.OwnNamespace()
	}
	if (f.service == "") == (f.url == "") {
		return nil, &usageError{errors.New("--webhook-bind-address needs one of --webhook-service and --webhook-url")}
	}
	if f.service == "" {
		return o, nil
	}
	name, port, said := strings.Cut(f.service, ":")
	service := &webhook.Service{}
	var ok bool
	if service.Namespace, service.Name, ok = strings.Cut(name, "/"); !ok || service.Namespace == "" || service.Name == "" {
		return nil, &usageError{fmt.Errorf("--webhook-service must be namespace/name or namespace/name:port, not %q", f.service)}
	}
	if said {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, &usageError{fmt.Errorf("--webhook-service has %q for a port", port)}
		}
		service.Port = int(n)
	}
	o.Service = service
	return o, nil
}
