package cli

import (
	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/server"
	aws "github.com/espalier-dev/espalier/providers/aws/v1alpha1"
)

// programFlags are the options of run that change which permissions the controllers need.
type programFlags struct {
	configuration
	webhook bool
}

func (f *programFlags) add(cmd *cobra.Command) {
	const with = "with --controllers: "
	flags := f.configuration.add(cmd, server.DefaultConfiguration())
	flags.Lookup("config").Usage = with + "the file of their --config"
	flags.BoolVar(&f.LeaderElection.Enabled, "leader-elect", true, with+"they elect a leader")
	f.addSelection(flags, with)
	flags.StringVar(&f.LeaderElection.Namespace, "leader-election-namespace", "",
		with+"namespace of the lease; by default the service account's namespace, or default")
	flags.BoolVar(&f.webhook, "webhook", false, with+"they serve webhooks (--webhook-bind-address)")
	flags.BoolVar(&f.PostgreSQL.Enabled, "postgresql", false, with+"they serve kinds of postgresql.espalier.dev")
	flags.BoolVar(&f.AWS.Enabled, "aws", false, with+"they serve activated resource types of AWS; 'espalier aws rbac' prints the role for the types")
	flags.BoolVar(&f.Metrics.Secure, "metrics-secure", false, with+"they authenticate users of /metrics")
	flags.Var((*dialectFlag)(&f.Dialects), "dialects", with+"which dialects they serve; by default both")
}

// role returns the ClusterRole, roles and bindings that the controllers need in every cluster.
func (f *programFlags) role(cmd *cobra.Command, to []rbacv1.Subject) ([]any, error) {
	if err := f.complete(cmd); err != nil {
		return nil, err
	}
	if f.webhook {
		f.Webhook.BindAddress = webhookAddress
	}
	permissions, err := f.needs(to)
	if err != nil {
		return nil, err
	}
	return rbac.Grant{Name: rbac.ControllersRole, Permissions: permissions, Subjects: to}.Objects(), nil
}

// webhookAddress is an address of webhooks, for permissions: which one does not matter.
const webhookAddress = ":9443"

// needs returns the permissions that the controllers need in every cluster, with the service account.
func (c configuration) needs(to []rbacv1.Subject) ([]rbac.Permission, error) {
	if c.LeaderElection.Namespace == "" {
		c.LeaderElection.Namespace = metav1.NamespaceDefault
		if len(to) > 0 && to[0].Namespace != "" {
			c.LeaderElection.Namespace = to[0].Namespace
		}
	}
	options, err := c.ManagerOptions()
	if err != nil {
		return nil, err
	}
	options.Name = programName
	if c.AWS.Enabled {
		c.AWS.Enabled = false // its permissions do not need AWS's SDK
		options.Providers = append(options.Providers, aws.Provider())
	}
	others, err := c.providers()
	if err != nil {
		return nil, err
	}
	options.Providers = append(options.Providers, others...)
	return server.Needs(options)
}
