//go:build !assets

package plane

import (
	"errors"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startStore runs etcd in this process, with one member, and returns when it is ready. It listens only on a unix socket in
// a private directory, so that it needs neither a port nor credentials.
func startStore(h *home, socket string, fsync bool) (component, error) {
	clients := url.URL{Scheme: "unix", Path: socket}
	config := embed.NewConfig()
	config.Name = "espalier"
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.Dir = h.file("etcd")
	config.ListenClientUrls = []url.URL{clients}
	config.AdvertiseClientUrls = []url.URL{clients}
	config.ListenPeerUrls = nil // there are no peers; the advertised peer URL is a name only
	config.LogOutputs = []string{embed.StdErrLogOutput}
	config.LogFormat = "console"
	config.LogLevel = "warn"
	config.UnsafeNoFsync = !fsync
	config.QuotaBackendBytes = 8 << 30
	// Entries of the log stay in memory for members that are late. There are none; 0 would be the default.
	config.SnapshotCatchUpEntries = 1
	// A single member elects itself after one election time-out, which nothing else depends on.
	config.TickMs, config.ElectionMs = 20, 100

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return component{}, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return component{ended: etcd.Err(), stop: etcd.Close, kill: func() {}}, nil
	case err := <-etcd.Err():
		etcd.Close()
		return component{}, err
	case <-time.After(time.Minute):
		etcd.Close()
		return component{}, errors.New("not ready after a minute")
	}
}
