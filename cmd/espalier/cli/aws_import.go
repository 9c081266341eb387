package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/manifest"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// awsImportFlags are the flags of aws import.
type awsImportFlags struct {
	region, profile, endpoint string
	tags                      []string
	of                        string
	all, tree                 bool
	limit                     int
	scope, config             string
	manifest                  manifest.Options
}

func newAWSImport() *cobra.Command {
	var flags awsImportFlags
	cmd := &cobra.Command{
		Use:   "import TYPE [IDENTIFIER...]",
		Short: "Print managed resources for resources of AWS that exist",
		Long: "Reads resources of a type, and prints managed resources that adopt them: by their identifiers,\n" +
			"or all with the tags of --tag; with both, it fails unless the tags match. Nothing is changed,\n" +
			"neither in AWS nor in a cluster, and none is needed.\n\n" +
			"The managed resources only observe (managementPolicies: [Observe]). Apply them, and when they\n" +
			"are ready, apply what --full prints: then they are managed with all policies, and nothing\n" +
			"changes, because spec.forProvider has the values of AWS.\n\n" +
			"With --tree, what a resource refers to is read too, and the properties become references.\n" +
			"Parts of an identifier are joined with |, in the order that 'espalier aws types' prints: quote\n" +
			"it. Resources without tags, or that AWS cannot list, are imported by their identifiers.\n\n" +
			"Credentials come from where the AWS tools find them: the environment, the files in ~/.aws, or\n" +
			"the machine's role. It calls ListResources and GetResource of the Cloud Control API or, for\n" +
			"types that this API does not serve, the API of their service. 'espalier aws policy' prints the\n" +
			"permissions, among others.\n\n" +
			"Exit codes: 0 after success, 1 after a failure, also if there is no such resource, 2 for\n" +
			"invalid arguments.",
		Example: "  espalier aws import AWS::EC2::VPC vpc-0123456789abcdef0 --region eu-central-1\n" +
			"  espalier aws import AWS::EC2::Subnet --tag env=prod --tree -n prod > network.yaml\n" +
			"  espalier aws import AWS::EC2::Subnet --tag env=prod --tree -n prod --full | kubectl apply -f -\n" +
			"  espalier aws import AWS::EKS::Nodegroup --all --list-with '{\"ClusterName\": \"main\"}'\n" +
			"  espalier aws import AWS::EC2::VPCCidrBlock 'vpc-cidr-assoc-0123456789abcdef0|vpc-0123456789abcdef0'",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeTypes(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			tags, err := flags.check(args)
			if err != nil {
				return err
			}
			if err := requireAWS(); err != nil {
				return err
			}
			return importAWS(cmd, flags, args[0], args[1:], tags)
		},
	}
	cmd.Flags().StringVar(&flags.region, "region", "", "region; by default the one configured for the AWS tools")
	cmd.Flags().StringVar(&flags.profile, "profile", "", "profile of the AWS tools")
	cmd.Flags().StringVar(&flags.endpoint, "endpoint", "", "URL of the APIs, for test clouds")
	cmd.Flags().StringArrayVar(&flags.tags, "tag", nil,
		"tag of the resources to import, KEY=VALUE; repeatable: all must match")
	cmd.Flags().BoolVar(&flags.all, "all", false, "import all resources of the type in the region")
	cmd.Flags().StringVar(&flags.of, "list-with", "", "what AWS needs to list resources of the type, as JSON: '{\"ClusterName\": \"main\"}'")
	cmd.Flags().BoolVar(&flags.tree, "tree", false, "import what the resources refer to as well")
	cmd.Flags().IntVar(&flags.limit, "limit", 100, "maximum number of resources; with more, nothing is printed")
	cmd.Flags().BoolVar(&flags.manifest.Full, "full", false, "allow all actions, instead of only observing")
	cmd.Flags().StringVarP(&flags.manifest.Namespace, "namespace", "n", "", "namespace of the objects; by default none is printed")
	cmd.Flags().StringVar(&flags.manifest.Name, "name", "", "name of the object of the first resource; by default from its tag Name or its identifier")
	cmd.Flags().StringVar(&flags.scope, "scope", string(resource.ScopeNamespaced), "scope of the kinds: Namespaced or Cluster")
	cmd.Flags().StringVar(&flags.config, "provider-config", "", "provider configuration, NAME or KIND/NAME; by default the one named default")
	return cmd
}

// check returns the tags.
func (f *awsImportFlags) check(args []string) (map[string]string, error) {
	isSelected := len(args) > 1 || len(f.tags) > 0
	switch {
	case len(args) == 0:
		return nil, &usageError{errors.New("aws import takes a resource type, such as AWS::EC2::VPC")}
	case strings.Contains(args[0], "*"):
		return nil, &usageError{fmt.Errorf("aws import takes one resource type, not the pattern %s; 'espalier aws types' lists those that match it", args[0])}
	case !catalog.Has(args[0]):
		return nil, noType(args[0])
	case isSelected == f.all:
		return nil, &usageError{errors.New("aws import takes identifiers, --tag or both; or --all alone")}
	case f.limit < 1:
		return nil, &usageError{fmt.Errorf("--limit must be at least 1, not %d", f.limit)}
	case f.scope != string(resource.ScopeNamespaced) && f.scope != string(resource.ScopeCluster):
		return nil, &usageError{fmt.Errorf("--scope can be %s or %s, not %q", resource.ScopeNamespaced, resource.ScopeCluster, f.scope)}
	case f.manifest.Name != "" && len(validation.IsDNS1123Subdomain(f.manifest.Name)) > 0:
		return nil, &usageError{fmt.Errorf("--name %q: %s", f.manifest.Name, strings.Join(validation.IsDNS1123Subdomain(f.manifest.Name), "; "))}
	}
	f.manifest.ClusterScoped = f.scope == string(resource.ScopeCluster)
	if kind, name, hasKind := strings.Cut(f.config, "/"); hasKind {
		f.manifest.ConfigKind, f.manifest.Config = kind, name
	} else {
		f.manifest.Config = f.config
	}
	tags := map[string]string{}
	for _, tag := range f.tags {
		key, value, ok := strings.Cut(tag, "=")
		if !ok || key == "" {
			return nil, &usageError{fmt.Errorf("--tag takes KEY=VALUE, not %q", tag)}
		}
		tags[key] = value
	}
	return tags, nil
}

func importAWS(cmd *cobra.Command, flags awsImportFlags, typeName string, identifiers []string, tags map[string]string) error {
	found, notes, err := linkedAWS.Existing(cmd.Context(), AWSResources{
		Region: flags.region, Profile: flags.profile, Endpoint: flags.endpoint,
		Type: typeName, Identifiers: identifiers, Tags: tags, ListWith: flags.of, Tree: flags.tree, Limit: flags.limit,
	})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if len(flags.tags) == 0 {
			return fmt.Errorf("there is no %s in this account and region", typeName)
		}
		return fmt.Errorf("no %s has the tags %s", typeName, strings.Join(flags.tags, ", "))
	}
	result, err := manifest.For(found, flags.manifest)
	if err != nil {
		return err
	}
	for i, o := range result.Objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		fmt.Fprint(cmd.OutOrStdout(), map[bool]string{true: "---\n"}[i > 0], string(text))
	}
	for _, note := range slices.Concat(notes, result.Notes) {
		fmt.Fprintln(prose(cmd.ErrOrStderr()), "espalier: "+diag.Printable(note))
	}
	return nil
}
