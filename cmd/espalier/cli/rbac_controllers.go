package cli

import (
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
)

// programFlags are the flags of run that change which permissions the controllers need.
type programFlags struct {
	elect          bool
	shard          shardFlags
	leaseNamespace string
	webhook        bool
	secret         string
	certificates   string
	postgresql     bool
	aws            bool
	policies       bool
	metricsSecure  bool
	dialects       dialectFlag
}

func (f *programFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	const with = "with --controllers: "
	flags.BoolVar(&f.elect, "leader-elect", true, with+"they elect a leader")
	f.shard.add(cmd, with)
	flags.StringVar(&f.leaseNamespace, "leader-election-namespace", "", with+"namespace of the lease; by default the service account's namespace, or default")
	flags.BoolVar(&f.webhook, "webhook", false, with+"they serve webhooks (--webhook-bind-address)")
	flags.StringVar(&f.secret, "webhook-secret-namespace", "",
		with+"namespace of the Secret with the webhook's certificate; by default the service account's namespace, or default")
	flags.StringVar(&f.certificates, "function-certificates-secret", "", with+"the Secret with which functions are called, as NAMESPACE/NAME")
	flags.BoolVar(&f.postgresql, "postgresql", false, with+"they serve kinds of postgresql.espalier.dev")
	flags.BoolVar(&f.aws, "aws", false, with+"they serve activated resource types of AWS; 'espalier aws rbac' prints the role for the types")
	flags.BoolVar(&f.policies, "admission-policies", true, with+"they install the ValidatingAdmissionPolicies")
	flags.BoolVar(&f.metricsSecure, "metrics-secure", false, with+"they authenticate users of /metrics")
	flags.Var(&f.dialects, "dialects", with+"which dialects they serve; by default both")
}

// role returns the ClusterRole, roles and bindings that the controllers need in every cluster.
func (f *programFlags) role(to []rbacv1.Subject) ([]any, error) {
	permissions, err := f.needs(to)
	if err != nil {
		return nil, err
	}
	return rbac.Grant{Name: rbac.ControllersRole, Permissions: permissions, Subjects: to}.Objects(), nil
}

// needs returns the permissions that the controllers need in every cluster, with the service account.
func (f *programFlags) needs(to []rbacv1.Subject) ([]rbac.Permission, error) {
	home := "default"
	if len(to) > 0 && to[0].Namespace != "" {
		home = to[0].Namespace
	}
	at := func(namespace string) string {
		if namespace == "" {
			return home
		}
		return namespace
	}
	enabled := controllerFlags{postgresql: f.postgresql, aws: f.aws}
	providers, err := enabled.providers()
	if err != nil {
		return nil, err
	}
	selected, err := f.shard.selector()
	if err != nil {
		return nil, err
	}
	o := server.ManagerOptions{
		Options: manager.Options{Name: programName, LeaderElection: f.elect, Shard: selected, LeaderElectionNamespace: at(f.leaseNamespace),
			MetricsSecure: f.metricsSecure},
		Providers: providers, Dialects: f.dialects.all, AdmissionPolicies: f.policies,
	}
	if f.webhook {
		o.Webhook = &webhook.Options{Namespace: at(f.secret)}
	}
	if namespace, name, named := strings.Cut(f.certificates, "/"); named {
		o.Functions.CertificatesSecret = packages.SecretName{Namespace: namespace, Name: name}
	}
	return server.Needs(o)
}
