package plane

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/espalier-dev/espalier/controlplane/internal/pki"
)

// withoutController names the admission plugins that block objects until a controller acts that
// does not run here.
var withoutController = []string{
	"ServiceAccount",               // refuses a pod until its account exists; no controller creates the default one
	"ResourceQuota",                // refuses objects while a quota's status is empty; no controller writes it
	"StorageObjectInUseProtection", // adds a finalizer to claims and volumes; no controller removes it
}

// apiFlags are the command line of the API server.
func apiFlags(etcd, authentication, admission string, keys pki.Set, addr net.Addr) []string {
	return []string{
		"--etcd-servers=" + etcd,

		"--bind-address=127.0.0.1",
		fmt.Sprint("--secure-port=", portOf(addr)),
		"--tls-cert-file=" + keys.Server.CertFile,
		"--tls-private-key-file=" + keys.Server.KeyFile,
		// A program with many watches on one connection opens streams faster than the server ends them.
		"--http2-max-streams-per-connection=2000",
		// No endpoints of the service "kubernetes": a loopback address may not be one.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",

		"--client-ca-file=" + keys.Authority.CertFile,
		"--authentication-config=" + authentication,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + keys.ServiceAccountFile,
		"--service-account-signing-key-file=" + keys.ServiceAccountFile,
		"--admission-control-config-file=" + admission,
		"--disable-admission-plugins=" + strings.Join(withoutController, ","),

		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		"--watch-cache=true",
		"--profiling=false",
		// A stop ends the watches that are open, instead of waiting a minute for them to end.
		"--shutdown-send-retry-after=true",
		"--shutdown-watch-termination-grace-period=1s",
		// One user on one machine: the limits are there for a runaway client only.
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1500",
	}
}

// writeAuthentication writes the configuration that allows anonymous requests for health only.
func writeAuthentication(file string) (string, error) {
	const rule = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /healthz
  - path: /livez
  - path: /readyz
`
	return file, os.WriteFile(file, []byte(rule), 0o600)
}
