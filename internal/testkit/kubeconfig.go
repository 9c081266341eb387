package testkit

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes how to reach a server to a file, and returns the file's path.
func Kubeconfig(tb testing.TB, config *rest.Config, path string) string {
	tb.Helper()
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		tb.Fatal(err)
	}
	file := clientcmdapi.NewConfig()
	file.Clusters["it"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["it"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	file.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	file.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		tb.Fatal(err)
	}
	return path
}
