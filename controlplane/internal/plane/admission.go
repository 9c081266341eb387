package plane

import (
	"encoding/json"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/espalier-dev/espalier/controlplane/internal/pki"
)

// writeAdmission writes the configuration by which the API server presents a client certificate to
// all admission webhooks that request one, and returns its file.
func writeAdmission(h *home, keys pki.Set) (string, error) {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.AuthInfos["*"] = &clientcmdapi.AuthInfo{ClientCertificate: keys.Webhooks.CertFile, ClientKey: keys.Webhooks.KeyFile}
	data, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return "", err
	}
	credentials := h.file("webhooks.kubeconfig")
	if err := replace(credentials, data); err != nil {
		return "", err
	}
	var plugins []any
	for _, name := range []string{"ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"} {
		plugins = append(plugins, map[string]any{"name": name, "configuration": map[string]any{
			"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": credentials,
		}})
	}
	data, err = json.Marshal(map[string]any{ // JSON is YAML
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins,
	})
	if err != nil {
		return "", err
	}
	file := h.file("admission.yaml")
	return file, replace(file, data)
}
