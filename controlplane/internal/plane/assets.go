//go:build assets

package plane

import (
	"errors"
	"net"
)

var errNoServers = errors.New("this program was built without servers: set " + AssetsVariable + " to the directory with etcd and kube-apiserver, or build it with that variable unset")

// startStore fails: the tag assets leaves the servers out of the program.
func startStore(*home, string, bool) (component, error) { return component{}, errNoServers }

// startAPI fails like startStore.
func startAPI([]string, net.Listener) (component, error) { return component{}, errNoServers }
