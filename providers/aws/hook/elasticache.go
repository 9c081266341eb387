package hook

import "strconv"

// cacheClusterConnection returns the address of a cache: the configuration endpoint of Memcached, or the node
// of Redis.
func cacheClusterConnection(t Target) map[string][]byte {
	out := pick(t.Properties, "endpoint", "RedisEndpoint.Address", "port", "RedisEndpoint.Port")
	if len(out) == 0 {
		out = pick(t.Properties, "endpoint", "ConfigurationEndpoint.Address", "port", "ConfigurationEndpoint.Port")
	}
	return out
}

// replicationGroupConnection returns the addresses of a group: the configuration endpoint in cluster mode, otherwise
// the addresses of the primary and the readers.
func replicationGroupConnection(t Target) map[string][]byte {
	out := pick(t.Properties, "endpoint", "ConfigurationEndPoint.Address", "port", "ConfigurationEndPoint.Port")
	if len(out) == 0 {
		out = pick(t.Properties, "endpoint", "PrimaryEndPoint.Address", "port", "PrimaryEndPoint.Port",
			"readerEndpoint", "ReaderEndPoint.Address", "readerPort", "ReaderEndPoint.Port")
	}
	if encrypted, ok := t.Properties["TransitEncryptionEnabled"].(bool); ok && len(out) > 0 {
		out["tls"] = []byte(strconv.FormatBool(encrypted))
	}
	return out
}
