package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/catalog/build"
)

func newAWSSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Show where the schemas of resource types are from, or update them",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := catalog.Schemas()
			_, err := fmt.Fprintf(prose(cmd.OutOrStdout()), "%d resource types, taken from AWS on %s: %s %s, sha256 %s\n", len(catalog.Names()), s.SchemaDate,
				s.Package, s.Version, s.SHA256)
			return err
		},
	}
	cmd.AddCommand(newAWSSchemaUpdate())
	return cmd
}

// awsSchemaFlags are the flags of aws schema update.
type awsSchemaFlags struct{ output, from, version, sum string }

func newAWSSchemaUpdate() *cobra.Command {
	var flags awsSchemaFlags
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Write newer schemas of resource types to a file",
		Long: "Downloads AWS's public schemas of resource types, in the Python package cfn-lint, with pip,\n" +
			"writes those that can be served to a file, and lists the types that differ from those of this\n" +
			"program. 'espalier provider run aws --aws-types-file FILE' serves them, or 'espalier up' with\n" +
			"aws.typesFile in the file of --config. CustomResourceDefinitions of activated types are updated\n" +
			"when the provider starts with the file. Without access to a package index, --from reads a\n" +
			"downloaded wheel.",
		Example: "  espalier aws schema update --output types.zip\n" +
			"  espalier aws schema update --from cfn_lint-1.58.0-py3-none-any.whl --output types.zip",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.from != "" && flags.version != "" {
				return &usageError{errors.New("--from and --version exclude each other")}
			}
			return updateSchemas(cmd, flags)
		},
	}
	cmd.Flags().StringVar(&flags.output, "output", "types.zip", "the file to write")
	cmd.Flags().StringVar(&flags.from, "from", "", "wheel of cfn-lint to read instead of downloading one")
	cmd.Flags().StringVar(&flags.version, "version", "", "version of cfn-lint; by default the newest")
	cmd.Flags().StringVar(&flags.sum, "sha256", "", "SHA-256 that the wheel must have")
	return cmd
}

func updateSchemas(cmd *cobra.Command, flags awsSchemaFlags) error {
	var wheel build.Wheel
	var err error
	if flags.from != "" {
		wheel, err = build.Open(flags.from)
	} else {
		wheel, err = build.Download(cmd.Context(), flags.version, flags.sum)
	}
	if err != nil {
		return err
	}
	if flags.sum != "" && wheel.SHA256() != strings.ToLower(flags.sum) {
		return fmt.Errorf("the wheel has the SHA-256 %s, not %s", wheel.SHA256(), flags.sum)
	}
	schemas, err := build.From(wheel)
	if err != nil {
		return err
	}
	file, err := schemas.File()
	if err != nil {
		return err
	}
	before := map[string]string{}
	for _, name := range catalog.Names() {
		raw, err := catalog.Raw(name)
		if err != nil {
			return err
		}
		before[name] = string(raw)
	}
	if err := os.WriteFile(flags.output, file, 0o644); err != nil {
		return err
	}
	if err := catalog.UseFile(flags.output); err != nil {
		return err
	}
	lines, err := schemaChanges(before)
	if err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(prose(cmd.OutOrStdout()), line)
	}
	s := catalog.Schemas()
	fmt.Fprintf(prose(cmd.ErrOrStderr()), "wrote %s: %d resource types, taken from AWS on %s: %s %s, sha256 %s\n", flags.output, len(catalog.Names()),
		s.SchemaDate, s.Package, s.Version, s.SHA256)
	return nil
}

// schemaChanges says which types the catalog has now that it did not have before, and the reverse.
func schemaChanges(before map[string]string) (out []string, err error) {
	for _, name := range catalog.Names() {
		raw, err := catalog.Raw(name)
		if err != nil {
			return nil, err
		}
		was, existed := before[name]
		switch {
		case !existed:
			out = append(out, "added "+name)
		case was != string(raw):
			out = append(out, "changed "+name)
		}
		delete(before, name)
	}
	for name := range before {
		out = append(out, "removed "+name)
	}
	slices.Sort(out)
	return out, nil
}
