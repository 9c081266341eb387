package account

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// settings are a configuration with the contents of its Secrets. What it may use is decided here, from values
// alone.
type settings struct {
	// Config describes the configuration.
	Config string
	// Namespace is the ProviderConfig's; empty for a ClusterProviderConfig.
	Namespace string
	Spec      v1alpha1.ProviderConfigSpec
	AccessKey accessKey
	CA        string
}

type accessKey struct{ ID, Secret, Token string }

// Format writes no field of the key.
func (accessKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(redacted)")) }

func (s settings) digest() [sha256.Size]byte {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // settings have strings and numbers only
	}
	return sha256.Sum256(raw)
}

func (s settings) hasEndpoint() bool {
	return s.Spec.Endpoint != nil && (s.Spec.Endpoint.URL != "" || len(s.Spec.Endpoint.Services) > 0)
}

// untrusted names the namespace that has chosen the services that answer, or the authorities that vouch for
// them; empty if an administrator or AWS has.
func (s settings) untrusted() string {
	if s.hasEndpoint() || s.CA != "" {
		return s.Namespace
	}
	return ""
}

// regionPattern keeps a region from being another part of a host name. The schema has it too, but an object
// may be older than the schema.
var regionPattern = regexp.MustCompile(`^[a-z]{2,8}(-[a-z]{2,12})+-[0-9]{1,2}$`)

func (o Options) check(s settings) error {
	if !regionPattern.MatchString(s.Spec.Region) {
		return fmt.Errorf("%s: spec.region %q is not the name of a region, such as eu-central-1", s.Config, s.Spec.Region)
	}
	source := s.Spec.Credentials.Source
	if s.Namespace != "" && source != v1alpha1.CredentialsSecret && !o.NamespacedIdentity {
		return &external.NotAllowedError{Message: fmt.Sprintf("%s: spec.credentials.source: a ProviderConfig of a namespace cannot use %s, which is the identity of Espalier itself. "+
			"Use the source Secret, refer to a ClusterProviderConfig, or have an administrator start Espalier with --aws-namespaced-identity (providers.aws.namespacedIdentity of the chart): every user who can write ProviderConfigs in a namespace then has the permissions of Espalier in AWS", s.Config, source)}
	}
	if s.Spec.Endpoint == nil {
		return nil
	}
	if s.Namespace != "" && source != v1alpha1.CredentialsSecret && (s.hasEndpoint() || s.Spec.Endpoint.CASecretRef != nil) {
		return &external.NotAllowedError{Message: fmt.Sprintf("%s: spec.endpoint: a ProviderConfig of a namespace with the source %s has neither endpoints nor caSecretRef of its own, "+
			"which would get the identity of Espalier itself. Use the source Secret, or refer to a ClusterProviderConfig", s.Config, source)}
	}
	if err := o.checkURL(s, "spec.endpoint.url", s.Spec.Endpoint.URL); err != nil {
		return err
	}
	for _, service := range s.Spec.Endpoint.Services {
		if err := o.checkURL(s, "spec.endpoint.services["+service.Name+"].url", service.URL); err != nil {
			return err
		}
	}
	return nil
}

// That a name of a host resolves to an allowed address is checked when a connection is made.
func (o Options) checkURL(s settings, field string, address v1alpha1.EndpointURL) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(string(address))
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http"):
		return fmt.Errorf("%s: %s must be a URL with https and a host, without user, query and fragment", s.Config, field)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("%s: %s: requests to %s need https", s.Config, field, u.Host)
	case u.Scheme == "http" && !o.LocalEndpoints:
		return &external.NotAllowedError{Message: fmt.Sprintf("%s: %s: http is for test clouds on this machine. Use https, or have an administrator start Espalier with --aws-local-endpoints", s.Config, field)}
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// embedded are prefixes of IPv6 addresses that contain an IPv4 address, by the bytes where it begins.
var embedded = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"): 12,
	netip.MustParsePrefix("::/96"):        12, // also :: and ::1, which are loopback or 0.0.0.0/8
	netip.MustParsePrefix("2002::/16"):    2,
}

// metadata are addresses of metadata and credential services that are not link-local.
var metadata = netip.MustParsePrefix("fd00:ec2::/32")

// translated contains addresses that a network translates to IPv4 addresses of its choice.
var translated = netip.MustParsePrefix("64:ff9b:1::/48")

// A ProviderConfig is not allowed to use these addresses: this machine, or a service of the network that trusts every
// client that can reach it.
func denied(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for prefix, at := range embedded {
		if prefix.Contains(ip) {
			raw := ip.As16()
			ip = netip.AddrFrom4([4]byte(raw[at : at+4]))
			break
		}
	}
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || metadata.Contains(ip) || translated.Contains(ip) ||
		ip.Is4() && (ip.As4()[0] == 0 || ip.As4()[0] == 255)
}

// checkAddress returns an error for a denied address. It is called with the resolved address, so the name of a host
// cannot evade it.
func checkAddress(network, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil && strings.HasPrefix(network, "tcp") {
		if ip, err := netip.ParseAddr(host); err == nil && !denied(ip) {
			return nil
		}
	}
	return &external.NotAllowedError{Message: "spec.endpoint: a ProviderConfig cannot refer to the machine on which Espalier runs, or to link-local addresses: " +
		"use a ClusterProviderConfig, or have an administrator start Espalier with --aws-local-endpoints"}
}
