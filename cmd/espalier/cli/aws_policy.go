package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/naming"
	"github.com/espalier-dev/espalier/providers/aws/policy"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func newAWSPolicy() *cobra.Command {
	var (
		where     activatedFlags
		directory string
	)
	cmd := &cobra.Command{
		Use:   "policy [PATTERN...]",
		Short: "Print the smallest IAM policy that resource types need",
		Long: "Prints the IAM policy with what the handlers of resource types call, as AWS's schemas list\n" +
			"it, and what Espalier calls itself: for the types that match, or without a pattern for\n" +
			"those that are activated in the cluster. Restrict its resources further as far as you can.\n\n" +
			"A policy larger than AWS allows is split into several, which are only written to files:\n" +
			"--output-dir writes policy-1.json, policy-2.json and so on. Attach all of them.\n\n" +
			typePatterns,
		Example: "  espalier aws policy AWS::EC2::VPC AWS::EC2::Subnet > policy.json\n" +
			"  espalier aws policy --output-dir policies",
		ValidArgsFunction: completeTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := where.typesOf(cmd, args)
			if err != nil {
				return err
			}
			var types []*resourcetype.Type
			for _, name := range names {
				t, err := catalog.Get(name)
				if err != nil {
					return err
				}
				types = append(types, t)
			}
			policies := policy.For(types)
			if err := writePolicies(cmd.OutOrStdout(), policies.Documents, directory); err != nil {
				return err
			}
			for _, note := range policies.Notes {
				fmt.Fprintln(prose(cmd.ErrOrStderr()), "espalier: "+note)
			}
			return nil
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&directory, "output-dir", "", "write the policies to files in this directory, and print their names")
	return cmd
}

// writePolicies writes each document to a file of the directory. Without a directory it prints the only one.
func writePolicies(to io.Writer, documents []policy.Document, directory string) error {
	switch {
	case directory == "" && len(documents) == 1:
		_, err := fmt.Fprint(to, documents[0].JSON())
		return err
	case directory == "":
		return fmt.Errorf("the policy is too large for one document of AWS, and is split into %d: set --output-dir, which writes a file each", len(documents))
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	file := func(i int) string { return filepath.Join(directory, fmt.Sprintf("policy-%d.json", i+1)) }
	if next := file(len(documents)); fileExists(next) {
		return fmt.Errorf("%s is from an earlier call, and this policy has %s: remove the files of the earlier one", next,
			diag.Counted(len(documents), "document", "documents"))
	}
	for i, document := range documents {
		if err := os.WriteFile(file(i), []byte(document.JSON()), 0o644); err != nil {
			return err
		}
		fmt.Fprintln(to, file(i))
	}
	return nil
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// activatedFlags say which types are meant where no pattern is given.
type activatedFlags struct {
	clusterFlags
	onDemand bool
}

func (f *activatedFlags) add(cmd *cobra.Command) {
	f.clusterFlags.add(cmd)
	cmd.Flags().BoolVar(&f.onDemand, "on-demand", false, "without a pattern: include types that definitions can still activate")
}

// typesOf returns the types that the patterns match, or without patterns those that are activated in the
// cluster.
func (f *activatedFlags) typesOf(cmd *cobra.Command, patterns []string) ([]string, error) {
	switch {
	case len(patterns) > 0 && f.onDemand:
		return nil, &usageError{errors.New("--on-demand is for calls without a pattern")}
	case len(patterns) > 0:
		return matchTypes(patterns)
	}
	from, err := f.activations()
	if err != nil {
		return nil, err
	}
	all, err := from.list(cmd.Context())
	if err != nil {
		return nil, err
	}
	names, notes := activatedTypes(all, f.onDemand)
	for _, note := range notes {
		fmt.Fprintln(prose(cmd.ErrOrStderr()), "espalier: "+note)
	}
	if len(names) == 0 {
		return nil, errors.New("no resource type is activated; name types, such as AWS::EC2::VPC")
	}
	return names, nil
}

// activatedTypes returns the types that are activated: those of spec.types, and those that definitions have
// activated, which only the status says. With onDemand, all that definitions may activate are among them.
func activatedTypes(all []v1alpha1.ResourceTypeActivation, onDemand bool) (names, notes []string) {
	for _, a := range all {
		patterns := a.Spec.Types
		if onDemand {
			patterns = slices.Concat(patterns, a.Spec.OnDemand)
		}
		for _, pattern := range patterns {
			matched, err := catalog.Match(string(pattern))
			if err != nil {
				continue // the status of the activation says so
			}
			names = append(names, matched...)
		}
		listed := 0
		for _, t := range a.Status.Types {
			if t.Kind != "" {
				listed++
			}
			if catalog.Has(t.Type) && t.State != resource.StateTooMany {
				names = append(names, t.Type)
			}
		}
		if kinds := int(a.Status.Kinds.Activated + a.Status.Kinds.Deactivated); !onDemand && len(a.Spec.OnDemand) > 0 && listed < kinds {
			notes = append(notes, fmt.Sprintf("the status of ResourceTypeActivation %s lists %d of %d kinds only; the policy can lack types that definitions have activated: name them, or add --on-demand", a.Name, listed, kinds))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), notes
}

// audience is who gets permissions for kinds of resource types.
type audience struct {
	// name begins the default name of the ClusterRole, and label adds its rules to a role of the chart, or of Kubernetes.
	name, label string
	verbs       []string
	// parts are subresources that they update.
	parts []string
	// scopes are the scopes of the kinds, unless --scope says others. Tenants and viewers act in namespaces: a role for them has
	// cluster-scoped kinds only on request.
	scopes []string
}

var (
	inNamespaces = []string{string(resource.ScopeNamespaced)}
	anywhere     = []string{string(resource.ScopeNamespaced), string(resource.ScopeCluster)}
)

// audiences are the values of --for.
var audiences = map[string]audience{
	"provider": {"espalier-aws-types", "rbac.espalier.dev/aggregate-to-provider-aws", []string{"get", "list", "patch", "update", "watch"},
		[]string{"finalizers", "status"}, anywhere},
	"tenant": {"espalier-aws-types-tenant", "rbac.espalier.dev/aggregate-to-tenant",
		[]string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}, nil, inNamespaces},
	"composer": {"espalier-aws-types-composer", rbac.AggregateToControllersLabel,
		[]string{"create", "delete", "get", "list", "patch", "update", "watch"}, nil, anywhere},
	"viewer": {"espalier-aws-types-viewer", "rbac.authorization.k8s.io/aggregate-to-view", []string{"get", "list", "watch"}, nil, inNamespaces},
}

func newAWSRBAC() *cobra.Command {
	var (
		where     activatedFlags
		name, who string
		scopes    []string
	)
	cmd := &cobra.Command{
		Use:   "rbac [PATTERN...]",
		Short: "Print a ClusterRole for using the kinds of resource types",
		Long: "Prints a ClusterRole with permissions for the kinds of the types that match, or without a\n" +
			"pattern for those that are activated in the cluster: what the provider needs, or with --for\n" +
			"what tenants, viewers, or the controllers of compositions need. Its label adds the rules to\n" +
			"a role of the chart or, for viewers, of Kubernetes.\n\n" +
			"The name of the ClusterRole is made from the patterns, such as espalier-aws-types-ec2-vpc:\n" +
			"roles for different patterns do not replace each other. Without a pattern it is\n" +
			"espalier-aws-types: apply it again when other types are activated. --name sets another one.\n\n" +
			"Kubernetes has no rule for all groups below aws.espalier.dev, so the provider needs a rule\n" +
			"for each service that is used: this ClusterRole, or an item of the value\n" +
			"providers.aws.services of the chart.\n\n" + typePatterns,
		Example: "  espalier aws rbac 'AWS::EC2::*' AWS::EKS::Cluster | kubectl apply -f -\n" +
			"  espalier aws rbac AWS::S3::Bucket --for tenant | kubectl apply -f -",
		ValidArgsFunction: completeTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, known := audiences[who]
			if !known {
				return &usageError{fmt.Errorf("--for can be %s, not %q", strings.Join(slices.Sorted(maps.Keys(audiences)), ", "), who)}
			}
			if len(scopes) == 0 {
				scopes = to.scopes
			}
			if err := (&activateFlags{scopes: scopes}).checkScopes(); err != nil {
				return err
			}
			names, err := where.typesOf(cmd, args)
			if err != nil {
				return err
			}
			if to.name += roleSuffix(args, scopes); name != "" {
				to.name = name
			}
			role, err := to.role(names, slices.Contains(scopes, string(resource.ScopeNamespaced)), slices.Contains(scopes, string(resource.ScopeCluster)))
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(role)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&name, "name", "", "name of the ClusterRole; by default from the patterns, --for and --scope")
	cmd.Flags().StringVar(&who, "for", "provider", "recipient: provider, tenant, viewer, or composer (the controllers that compose resources)")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil,
		"scopes of the kinds: Namespaced or Cluster; by default both, or Namespaced for tenants and viewers")
	return cmd
}

// roleSuffixLength is how long what patterns add to the name of a ClusterRole can be. More is replaced by a hash.
const roleSuffixLength = 100

// roleSuffix returns what the name of a ClusterRole for patterns and scopes ends with, so that the roles of
// different calls do not replace each other.
func roleSuffix(patterns, scopes []string) string {
	var parts []string
	for _, pattern := range slices.Compact(slices.Sorted(slices.Values(patterns))) {
		words := strings.FieldsFunc(strings.ReplaceAll(strings.ToLower(pattern), "*", ":all:"), func(r rune) bool { return r == ':' })
		if len(words) > 1 && words[0] == "aws" {
			words = words[1:]
		}
		parts = append(parts, "-"+strings.Join(words, "-"))
	}
	out := strings.Join(parts, "")
	if len(out) > roleSuffixLength {
		out = fmt.Sprintf("%s-%.8x", parts[0][:min(len(parts[0]), roleSuffixLength)], sha256.Sum256([]byte(out)))
	}
	if slices.Contains(scopes, string(resource.ScopeNamespaced)) != slices.Contains(scopes, string(resource.ScopeCluster)) {
		out += "-" + strings.ToLower(scopes[0])
	}
	return out
}

// role returns the permissions for the kinds of types, with rules for each group.
func (a audience) role(types []string, namespaced, cluster bool) (*rbacv1.ClusterRole, error) {
	groups := map[string][]string{}
	for _, t := range types {
		for clusterScoped, isWanted := range map[bool]bool{false: namespaced, true: cluster} {
			if !isWanted {
				continue
			}
			kind, err := naming.Of(t, clusterScoped)
			if err != nil {
				return nil, err
			}
			groups[kind.Group] = append(groups[kind.Group], kind.Plural)
		}
	}
	role := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Labels: map[string]string{a.label: "true"}},
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		plurals := groups[group]
		slices.Sort(plurals)
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: plurals, Verbs: a.verbs})
		var parts []string
		for _, plural := range plurals {
			for _, part := range a.parts {
				parts = append(parts, plural+"/"+part)
			}
		}
		if len(parts) > 0 {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: parts, Verbs: []string{"update"}})
		}
	}
	return role, nil
}
