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

// longest is how many bytes the path of a socket can have: the kernel keeps 108,
// and ends them with a zero.
const longest = 107

// SocketFor is where the program that works for a cluster is asked, unless it
// was told otherwise.
func SocketFor(config *rest.Config) string {
	sum := sha256.Sum256([]byte(address(config)))
	return filepath.Join(directory(), hex.EncodeToString(sum[:])[:16]+".sock")
}

// directory is this user's own. A relative XDG_RUNTIME_DIR is none, as its
// specification has it.
func directory() string {
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "espalier")
	}
	return filepath.Join(os.TempDir(), "espalier-"+strconv.Itoa(os.Getuid()))
}

// address is a cluster's address in the one spelling that all its spellings
// have in common. The path is part of it: behind one host there may be many
// clusters.
func address(config *rest.Config) string {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return config.Host // whoever connects to it will say what is wrong
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

// absolute is a path that a socket can have. That it is absolute matters beyond
// the working directory: a name that begins with @ would be one without a file,
// and open to everybody.
func absolute(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("where is the socket? %w", err)
	}
	if len(path) > longest {
		return "", fmt.Errorf("the path of a socket can have %d bytes, and %s has %d: choose a shorter one", longest, path, len(path))
	}
	return path, nil
}
