package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
)

// webhookFlags configure the admission webhook for Usages and the conversion webhook.
type webhookFlags struct {
	address, service, url, namespace string
	// certificates is a directory with a certificate that another program renews.
	certificates string
	// clientCA is a file with the authorities of the API server's client certificate, and clientNames
	// are its allowed common names.
	clientCA    string
	clientNames []string
	// replace deletes the webhook configuration that Crossplane has left behind.
	replace bool
}

func (f *webhookFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "webhook-bind-address", "0",
		"address of the admission webhook for Usages and ClusterUsages and of the conversion webhook, over TLS; 0 for none")
	flags.StringVar(&f.service, "webhook-service", "", "the Service by which the API server reaches the webhooks: namespace/name, or namespace/name:port")
	flags.StringVar(&f.url, "webhook-url", "", "the URL by which the API server reaches the webhooks, if this program runs outside the cluster")
	flags.StringVar(&f.namespace, "webhook-secret-namespace", "", "namespace of the Secret espalier-webhook with the certificate; by default the pod's namespace")
	flags.StringVar(&f.certificates, "webhook-certificates", "",
		"directory with tls.crt, tls.key and ca.crt of the webhooks, which another program such as cert-manager renews; by default a certificate is issued and renewed in the Secret espalier-webhook")
	flags.StringVar(&f.clientCA, "webhook-client-ca", "",
		"file with the certificate authorities of the client certificate that the API server presents to admission webhooks (kubeConfigFile of its AdmissionConfiguration); the admission webhook then refuses all other clients. Without it, no refused deletion is replayed")
	flags.StringSliceVar(&f.clientNames, "webhook-client-allowed-names", nil, "allowed common names of that client certificate; by default any")
	flags.BoolVar(&f.replace, "replace-crossplane-webhook", false,
		"delete ValidatingWebhookConfiguration "+webhook.ForeignName+", which blocks deletions of objects in use when Crossplane is stopped")
}

// options returns nil if no webhook is served.
func (f *webhookFlags) options() (*webhook.Options, error) {
	if f.address == "0" || f.address == "" {
		if f.service != "" || f.url != "" || f.clientCA != "" || f.certificates != "" {
			return nil, &usageError{errors.New("--webhook-service, --webhook-url, --webhook-certificates and --webhook-client-ca require --webhook-bind-address")}
		}
		return nil, nil
	}
	if len(f.clientNames) > 0 && f.clientCA == "" {
		return nil, &usageError{errors.New("--webhook-client-allowed-names requires --webhook-client-ca")}
	}
	o := &webhook.Options{Address: f.address, URL: f.url, Namespace: f.namespace, ClientCA: f.clientCA, ClientNames: f.clientNames}
	if o.Namespace == "" {
		o.Namespace = manager.PodNamespace()
	}
	if f.certificates != "" {
		o.Store = webhook.Mounted(f.certificates)
	}
	if o.Namespace == "" && o.Store == nil {
		return nil, &usageError{errors.New("--webhook-secret-namespace is required outside of a pod")}
	}
	if (f.service == "") == (f.url == "") {
		return nil, &usageError{errors.New("--webhook-bind-address requires one of --webhook-service and --webhook-url")}
	}
	if f.service == "" {
		return o, nil
	}
	name, port, hasPort := strings.Cut(f.service, ":")
	service := &webhook.Service{}
	var ok bool
	if service.Namespace, service.Name, ok = strings.Cut(name, "/"); !ok || service.Namespace == "" || service.Name == "" {
		return nil, &usageError{fmt.Errorf("--webhook-service must be namespace/name or namespace/name:port, not %q", f.service)}
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, &usageError{fmt.Errorf("--webhook-service: invalid port %q", port)}
		}
		service.Port = int(n)
	}
	o.Service = service
	return o, nil
}
