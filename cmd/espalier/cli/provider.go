package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/skeleton"
)

func newProvider() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "provider",
		Short:   "Run a provider of managed resources, or write one",
		Example: "  espalier provider run postgresql --leader-election-namespace espalier-system",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProviderNew(), newProviderRun())
	return cmd
}

// providerFlags are the flags of provider new.
type providerFlags struct {
	dir     string
	replace string
	skeleton.Provider
}

func newProviderNew() *cobra.Command {
	var flags providerFlags
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a provider that compiles, conforms and runs",
		Long: "Writes a Go module with a provider of one kind, whose external resources are files\n" +
			"in a directory, and with the conformance test of its client. Replace the directory\n" +
			"by your external API, and the kind by yours. No existing file is overwritten.",
		Example: "  espalier provider new things --kind Bucket --group things.example.org \\\n" +
			"    --module example.org/provider-things",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("%s takes a name, not %d arguments", cmd.Name(), len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.Name = args[0]
			return newProviderIn(cmd.OutOrStdout(), flags)
		},
	}
	cmd.Flags().StringVar(&flags.dir, "dir", "", "directory to write to; provider-NAME by default")
	cmd.Flags().StringVar(&flags.Kind, "kind", "Note", "its kind, in CamelCase")
	cmd.Flags().StringVar(&flags.Group, "group", "", "the API group of its kinds; NAME.example.org by default")
	cmd.Flags().StringVar(&flags.Module, "module", "", "the path of the Go module; example.org/provider-NAME by default")
	cmd.Flags().StringVar(&flags.replace, "replace", "", "a checkout of Espalier to build against instead of a release")
	return cmd
}

func newProviderIn(to io.Writer, f providerFlags) error {
	p := f.Provider
	dir := cmp.Or(f.dir, "provider-"+p.Name)
	p.Group = cmp.Or(p.Group, p.Name+".example.org")
	p.Module = cmp.Or(p.Module, "example.org/provider-"+p.Name)
	p.Version = "v0.0.0"
	if v := Version(); strings.HasPrefix(v, "v") {
		p.Version = v
	}
	if err := p.Validate(); err != nil {
		return &usageError{err}
	}
	if f.replace != "" {
		var err error
		if p.Replace, err = checkout(f.replace); err != nil {
			return err
		}
	}
	files, err := p.Files()
	if err != nil {
		return err
	}
	if err := writeFiles(dir, files); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(to, filepath.Join(dir, path))
	}
	next := "  cd " + dir + "\n"
	if p.Replace == "" && strings.HasPrefix(p.Version, "v0.0.0") { // go mod tidy would look for it
		next += "  go mod edit -replace github.com/espalier-dev/espalier=CHECKOUT   # this espalier is not a release\n"
	}
	_, err = fmt.Fprintf(to, "\nNext:\n%s  go mod tidy\n  go test ./...\nThen follow README.md in that directory.\n", next)
	return err
}

// checkout returns the absolute path of a checkout of Espalier.
func checkout(path string) (string, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	mod, err := os.ReadFile(filepath.Join(full, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module github.com/espalier-dev/espalier\n") {
		return "", fmt.Errorf("%s is not a checkout of Espalier", full)
	}
	return full, nil
}

// writeFiles writes new files, or none if one of them exists.
func writeFiles(dir string, files map[string][]byte) error {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		switch _, err := os.Lstat(filepath.Join(dir, path)); {
		case err == nil:
			return fmt.Errorf("%s already exists; choose another --dir", filepath.Join(dir, path))
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, files[path], 0o644); err != nil {
			return err
		}
	}
	return nil
}
