package introspect

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// maxSocketPath is how many bytes the path of a socket can have: the kernel stores 108, with
// a terminating zero.
const maxSocketPath = 107

// SocketPath is the default path of the socket of the program that runs the controllers of a
// cluster.
func SocketPath(config *rest.Config) string {
	sum := sha256.Sum256([]byte(address(config)))
	return filepath.Join(directory(), hex.EncodeToString(sum[:])[:16]+".sock")
}

// directory is a directory of this user. A relative XDG_RUNTIME_DIR is ignored, as its
// specification demands.
func directory() string {
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "espalier")
	}
	return filepath.Join(os.TempDir(), "espalier-"+strconv.Itoa(os.Getuid()))
}

// address is the address of a cluster in canonical form. The path is part of it: one host may
// serve many clusters.
func address(config *rest.Config) string {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return config.Host // the first request reports what is wrong with it
	}
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	if port == "" {
		port = map[string]string{"http": "80"}[u.Scheme]
	}
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(host, port) + strings.TrimRight(u.Path, "/")
}

// socketPath returns the absolute path of a socket. A name that begins with @ would otherwise
// be an abstract socket, which has no file and is open to all users.
func socketPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("socket path: %w", err)
	}
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("the path of a socket can have at most %d bytes, and %s has %d: choose a shorter one", maxSocketPath, path, len(path))
	}
	return path, nil
}
