package server

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/admission"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// Needs returns the permissions that the controllers need in every cluster with the given
// options.
func Needs(o ManagerOptions) ([]rbac.Permission, error) {
	serves := func(d Dialect) bool { return len(o.Dialects) == 0 || slices.Contains(o.Dialects, d) }
	p := rbac.ControllerOptions{
		Graphs: serves(Graph), Compositions: serves(Composition), GraphKind: o.Graphs,
		Configuration: rbac.Object{Name: webhook.ConfigurationName}, Webhook: o.Webhook != nil,
		Foreign: rbac.Object{Name: webhook.ForeignName}, Replace: o.ReplaceCrossplaneWebhook,
		MetricsSecure: o.MetricsSecure,
		Certificates:  rbac.Object{Namespace: o.Functions.CertificatesSecret.Namespace, Name: o.Functions.CertificatesSecret.Name},
	}
	if o.Packages != nil && p.Compositions {
		p.Packages, p.ProviderRules = rbac.Object{Namespace: o.Packages.Namespace}, o.Packages.ProviderPermissions
	}
	if o.Operations != nil && p.Compositions {
		p.Operations = rbac.Object{Namespace: o.Operations.Namespace}
		if a := o.Operations.ServiceAccount; a != nil {
			p.More = rbac.Object{Namespace: a.Namespace, Name: a.Name}.Permissions("", "serviceaccounts", rbac.VerbImpersonate)
		}
	}
	p.SigningKey = rbac.Object{Namespace: cmp.Or(o.LeaderElectionNamespace, DefaultSigningKeyNamespace), Name: v1alpha1.SigningKeySecret}
	if o.LeaderElection {
		p.Sharded = !o.Shard.All()
		p.Lease = rbac.Object{Namespace: o.LeaderElectionNamespace, Name: manager.LeaseName(o.Name)}
	}
	if o.Webhook != nil && o.Webhook.Store == nil {
		p.Secret = rbac.Object{Namespace: o.Webhook.Namespace, Name: webhook.SecretName}
	}
	for _, provider := range o.Providers {
		served, err := servedBy(provider)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", provider.Name, err)
		}
		p.Managed = append(p.Managed, served...)
	}
	if o.AdmissionPolicies {
		policies, err := admission.Permissions()
		if err != nil {
			return nil, err
		}
		p.More = append(p.More, policies...)
	}
	return rbac.ControllerPermissions(p), nil
}

// ProviderNeeds returns the permissions that a provider needs that runs as a program of its own, with
// the given options.
func ProviderNeeds(p managed.Provider, o manager.Options) ([]rbac.Permission, error) {
	served, err := servedBy(p)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return rbac.ProviderPermissions(rbac.ControllerOptions{
		Lease: rbac.Object{Namespace: o.LeaderElectionNamespace, Name: manager.LeaseName(p.Name)}, Sharded: !o.Shard.All(), Managed: served,
		MetricsSecure: o.MetricsSecure,
		Catalogs:      p.Activations.Kind != "",
	}), nil
}

// servedBy returns the kinds of a provider, with those of its configurations and of its catalog.
func servedBy(p managed.Provider) (out []rbac.Resource, err error) {
	err = fs.WalkDir(p.CRDs, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(p.CRDs, path)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, rbac.Resource{Group: crd.Spec.Group, Name: crd.Spec.Names.Plural})
		return nil
	})
	if catalog, ok := p.Catalog.(managed.Groups); ok {
		for _, group := range catalog.Groups() {
			out = append(out, rbac.Resource{Group: group, Name: "*"})
		}
	}
	return out, err
}
