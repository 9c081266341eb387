package hook

import (
	"maps"
	"slices"
)

// domainConnection returns the address of a domain: one on the internet, or in a VPC.
func domainConnection(t Target) map[string][]byte {
	out := pick(t.Properties, "arn", "Arn", "endpoint", "DomainEndpoint")
	if endpoints, ok := t.Properties["DomainEndpoints"].(map[string]any); ok && out["endpoint"] == nil {
		for _, name := range slices.Sorted(maps.Keys(endpoints)) {
			if address, ok := endpoints[name].(string); ok && out["endpoint"] == nil {
				out["endpoint"] = []byte(address)
			}
		}
	}
	if out["endpoint"] != nil {
		out["port"] = []byte("443")
	}
	return out
}
