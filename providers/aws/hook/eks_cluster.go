package hook

import (
	"encoding/base64"
	"encoding/json"
)

// clusterConnection returns the address and the certificate authority of a cluster, and a kubeconfig for them. The
// kubeconfig gets a token by aws eks get-token, with its user's credentials: a token in the Secret would be valid for
// 15 minutes, so the Secret would be written again and again.
func clusterConnection(t Target) map[string][]byte {
	endpoint, authority := text(t.Properties, "Endpoint"), text(t.Properties, "CertificateAuthorityData")
	if authority == "" {
		authority = text(t.Properties, "CertificateAuthority.Data")
	}
	ca, err := base64.StdEncoding.DecodeString(authority)
	if endpoint == "" || len(ca) == 0 || err != nil {
		return nil
	}
	name := t.Identifier
	user := map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws",
		"args":            []string{"eks", "get-token", "--cluster-name", name, "--region", t.Region, "--output", "json"},
		"interactiveMode": "Never", "provideClusterInfo": false,
		"installHint": "the kubeconfig needs the AWS CLI: https://docs.aws.amazon.com/cli/",
	}
	// JSON is YAML, and quotes what is quoted.
	kubeconfig, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{"server": endpoint, "certificate-authority-data": authority}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}},
		"users":    []any{map[string]any{"name": name, "user": map[string]any{"exec": user}}},
	}, "", "  ")
	if err != nil {
		return nil
	}
	return map[string][]byte{
		"endpoint": []byte(endpoint), "clusterCA": ca, "clusterName": []byte(name), "region": []byte(t.Region), "kubeconfig": append(kubeconfig, '\n'),
	}
}
