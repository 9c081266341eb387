package chart

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/program/webhook"
	"github.com/espalier-dev/espalier/internal/serving/admission"
	aws "github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// Generated returns the files of the chart that are generated, by their paths in it.
func Generated() (map[string][]byte, error) {
	out := map[string][]byte{}
	permissions, err := permissions()
	if err != nil {
		return nil, err
	}
	if out["files/permissions.yaml"], err = yaml.Marshal(permissions); err != nil {
		return nil, err
	}
	out["files/permissions.yaml"] = append([]byte(header), out["files/permissions.yaml"]...)
	if out["README.md"], err = readme(); err != nil {
		return nil, err
	}
	policies := admission.Files()
	names, err := fs.Glob(policies, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(policies, name)
		if err != nil {
			return nil, err
		}
		out[path.Join("files/policies", name)] = append([]byte("# Copied from internal/serving/admission/policies by 'make generate'; do not edit.\n"), text...)
	}
	return out, nil
}

const header = `# Generated from the lists that the controllers verify their permissions against by 'make generate'; do not edit.
# What each part of the program needs in all namespaces (cluster), and in the namespace of the release (namespace).
`

// grants are the rules of one part of the program.
type grants struct {
	Cluster   []rbacv1.PolicyRule `json:"cluster,omitempty"`
	Namespace []rbacv1.PolicyRule `json:"namespace,omitempty"`
}

// namespace stands for the namespace of the release.
const namespace = "release"

// permissions returns what each part of the program needs beside the others.
func permissions() (map[string]grants, error) {
	minimal := server.ManagerOptions{
		Options:  manager.Options{Name: "espalier", LeaderElection: true, LeaderElectionNamespace: namespace},
		Settings: server.Settings{Dialects: []server.Dialect{server.Graph}},
	}
	graph, err := server.Needs(minimal)
	if err != nil {
		return nil, err
	}
	composition, err := with(minimal, func(o *server.ManagerOptions) { o.Dialects = []server.Dialect{server.Composition} })
	if err != nil {
		return nil, err
	}
	base := slices.DeleteFunc(slices.Clone(graph), func(p rbac.Permission) bool { return !slices.Contains(composition, p) })
	out := map[string]grants{"controllers": rules(base), "graph": rules(beside(graph, base)), "composition": rules(beside(composition, base))}
	for part, add := range map[string]func(*server.ManagerOptions){
		"webhook":           func(o *server.ManagerOptions) { o.Webhook = &webhook.Options{Store: webhook.Mounted("")} },
		"metricsSecure":     func(o *server.ManagerOptions) { o.MetricsSecure = true },
		"sharded":           func(o *server.ManagerOptions) { o.Shard = someShard },
		"replaceCrossplane": func(o *server.ManagerOptions) { o.ReplaceCrossplaneWebhook = true },
		"graphs":            func(o *server.ManagerOptions) { o.Graphs = true },
	} {
		needs, err := with(minimal, add)
		if err != nil {
			return nil, err
		}
		out[part] = rules(beside(needs, graph))
	}
	// Packages and operations need the dialect of compositions, whose permissions the chart has already.
	packages, err := with(minimal, func(o *server.ManagerOptions) {
		o.Dialects, o.Packages = []server.Dialect{server.Composition}, &server.PackageOptions{Namespace: namespace}
	})
	if err != nil {
		return nil, err
	}
	out["packages"] = rules(beside(packages, composition))
	granting, err := with(minimal, func(o *server.ManagerOptions) {
		o.Dialects, o.Packages = []server.Dialect{server.Composition}, &server.PackageOptions{Namespace: namespace, ProviderPermissions: []rbacv1.PolicyRule{{}}}
	})
	if err != nil {
		return nil, err
	}
	out["packageProviders"] = rules(beside(granting, packages))
	operations, err := with(minimal, func(o *server.ManagerOptions) {
		o.Dialects, o.Operations = []server.Dialect{server.Composition}, &server.OperationOptions{Namespace: namespace}
	})
	if err != nil {
		return nil, err
	}
	out["operations"] = rules(beside(operations, composition))
	mounted, err := with(minimal, func(o *server.ManagerOptions) { o.Webhook = &webhook.Options{Store: webhook.Mounted("")} })
	if err != nil {
		return nil, err
	}
	stored, err := with(minimal, func(o *server.ManagerOptions) { o.Webhook = &webhook.Options{Namespace: namespace} })
	if err != nil {
		return nil, err
	}
	out["webhookSecret"] = rules(beside(stored, mounted))
	provider := minimal.Options
	for name, p := range map[string]managed.Provider{
		"aws": aws.Provider(), "postgresql": postgresql.Provider(postgresql.Options{}),
	} {
		needs, err := server.ProviderNeeds(p, provider)
		if err != nil {
			return nil, err
		}
		out[name] = rules(needs)
		secured := provider
		secured.MetricsSecure = true
		secure, err := server.ProviderNeeds(p, secured)
		if err != nil {
			return nil, err
		}
		out[name+"MetricsSecure"] = rules(beside(secure, needs))
	}
	return out, nil
}

// someShard is the shard of an installation that is not the only one: which one does not matter.
var someShard, _ = shard.Parse([]string{namespace}, "")

func with(o server.ManagerOptions, change func(*server.ManagerOptions)) ([]rbac.Permission, error) {
	change(&o)
	return server.Needs(o)
}

// beside returns the permissions that others do not have.
func beside(all, others []rbac.Permission) []rbac.Permission {
	return slices.DeleteFunc(slices.Clone(all), func(p rbac.Permission) bool { return slices.Contains(others, p) })
}

func rules(permissions []rbac.Permission) (out grants) {
	for _, scope := range rbac.Scopes(permissions) {
		switch scope.Namespace {
		case "":
			out.Cluster = rbac.Rules(scope.Permissions)
		case namespace:
			out.Namespace = rbac.Rules(scope.Permissions)
		default:
			panic(fmt.Sprintf("permissions in namespace %s, which the chart does not know", scope.Namespace))
		}
	}
	return out
}
