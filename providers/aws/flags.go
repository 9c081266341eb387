package aws

import (
	"flag"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/serve"
)

// Flags are the flags of programs that run the provider.
type Flags struct {
	TypesFile          string
	LocalEndpoints     bool
	NamespacedIdentity bool
}

// Descriptions of the flags.
const (
	TypesFileUsage          = "file with schemas of resource types, written by 'espalier aws schema update', instead of those of the program"
	LocalEndpointsUsage     = "let configurations name test clouds on this machine, over http"
	NamespacedIdentityUsage = "let ProviderConfigs, which belong to a namespace, use the identity of this process"
)

// Provider returns the provider with the options that the flags say. The metrics server of the program serves its
// metrics.
func (f Flags) Provider() (managed.Provider, error) {
	if f.TypesFile != "" {
		if err := catalog.UseFile(f.TypesFile); err != nil {
			return managed.Provider{}, err
		}
	}
	var o Options
	o.Account.LocalEndpoints, o.Account.NamespacedIdentity = f.LocalEndpoints, f.NamespacedIdentity
	p, m := newProvider(o)
	m.Register()
	return p, nil
}

// Program returns the provider as a program of its own.
func Program() serve.Program {
	var f Flags
	return serve.Program{
		Name: "aws",
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&f.TypesFile, "aws-types-file", "", TypesFileUsage)
			flags.BoolVar(&f.LocalEndpoints, "aws-local-endpoints", false, LocalEndpointsUsage)
			flags.BoolVar(&f.NamespacedIdentity, "aws-namespaced-identity", false, NamespacedIdentityUsage)
		},
		Provider: func() (managed.Provider, error) { return f.Provider() },
	}
}
