package plane

import (
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/espalier-dev/espalier/controlplane/internal/pki"
)

// writeKubeconfig writes the administrator's credentials to file with mode 0600, and returns them
// as a client's configuration without client-side throttling. The file contains the certificates, so that it can
// be copied.
func writeKubeconfig(file string, addr net.Addr, keys pki.Set) (*rest.Config, error) {
	config, err := adminConfig("https://"+addr.String(), keys)
	if err != nil {
		return nil, err
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	if err := replace(file, data); err != nil {
		return nil, err
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	client.QPS = -1
	return client, nil
}

func adminConfig(url string, keys pki.Set) (*clientcmdapi.Config, error) {
	const cluster, user = "espalier", "admin"
	content := map[string][]byte{}
	for _, file := range []string{keys.Authority.CertFile, keys.Admin.CertFile, keys.Admin.KeyFile} {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		content[file] = data
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{
		Server:                   url,
		CertificateAuthorityData: content[keys.Authority.CertFile],
		DisableCompression:       true, // the loopback interface is faster than gzip, which each event of a watch would pass
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: content[keys.Admin.CertFile],
		ClientKeyData:         content[keys.Admin.KeyFile],
	}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = cluster
	return config, nil
}

// replace replaces a file atomically, with mode 0600 whatever mode it had.
func replace(file string, data []byte) error {
	next, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(next.Name()) // fails once it has its name
	if _, err := next.Write(data); err != nil {
		next.Close()
		return err
	}
	if err := next.Close(); err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}
