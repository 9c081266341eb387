package cli

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
)

func newAWS() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "aws",
		Short: "Work with resource types of AWS: activate their kinds, and import resources",
		Long: "Resource types of AWS, such as AWS::EC2::VPC, are kinds of Kubernetes once they are\n" +
			"activated, such as VPC of ec2.aws.espalier.dev. 'espalier up --aws' and 'espalier\n" +
			"provider run aws' serve them; docs/aws.md has the first steps. These and 'espalier aws\n" +
			"import' are run by the program espalier-provider-aws, which contains AWS's SDK: it has\n" +
			"to be in the directory of espalier, or in PATH.\n\n" + typePatterns,
		Example: "  espalier aws types 'AWS::EC2::V*'\n" +
			"  espalier aws activate AWS::EC2::VPC AWS::EC2::Subnet",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAWSTypes(), newAWSActivate(), newAWSDeactivate(), newAWSActivations(), newAWSPolicy(), newAWSRBAC(), newAWSImport(), newAWSSchema())
	return cmd
}

// typePatterns is the help on patterns.
const typePatterns = "A PATTERN is the name of a type, or has * for any characters, as in AWS::EC2::*. Quote it,\n" +
	"so that the shell does not expand it. Names are case-sensitive."

// exitCodes is the help on the exit codes of verbs that wait for a cluster.
const exitCodes = "Exit codes: 0 after success, 1 after a failure, 2 for invalid arguments, 4 on a timeout."

// completeTypes completes names of resource types, all but those that are there already.
func completeTypes(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, name := range catalog.Names() {
		if strings.HasPrefix(strings.ToLower(name), strings.ToLower(typed)) && !slices.Contains(args, name) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// matchTypes returns the names of the types that the patterns match, sorted, each once.
func matchTypes(patterns []string) ([]string, error) {
	var out []string
	for _, pattern := range patterns {
		names, err := catalog.Match(pattern)
		if err != nil {
			return nil, &usageError{err}
		}
		if len(names) == 0 {
			return nil, noType(pattern)
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// noType returns the error that no type matches a pattern, with what may be meant.
func noType(pattern string) error {
	if err := catalog.Instead(pattern); err != nil {
		return err
	}
	for _, name := range catalog.Names() {
		if ok, _ := path.Match(strings.ToLower(pattern), strings.ToLower(name)); ok {
			return fmt.Errorf("no resource type matches %q: names are case-sensitive, as in %s", pattern, name)
		}
	}
	date, _, _ := strings.Cut(catalog.Schemas().SchemaDate, "T")
	return fmt.Errorf("no resource type matches %q; 'espalier aws types' lists all that can be served (schemas of %s)", pattern, date)
}

// requirePatterns checks that there is a pattern.
func requirePatterns(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &usageError{fmt.Errorf("aws %s takes resource types, such as AWS::EC2::VPC or 'AWS::EC2::*'", cmd.Name())}
	}
	return nil
}

// columns formats lines of cells, the first of them titles, for a terminal of the given width; a width of 0 means no limit.
func columns(lines [][]string, width int) string {
	for _, cells := range lines {
		for i, cell := range cells {
			cells[i] = observe.Printable(cell)
		}
	}
	return observe.WrapTable(lines, width)
}

// errNotInstalled is returned where the cluster has no kind ResourceTypeActivation.
var errNotInstalled = errors.New("the cluster does not serve ResourceTypeActivation of aws.espalier.dev: run the provider first, with 'espalier up --aws', 'espalier provider run aws', or the value providers.aws.enabled of the chart")
