package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/backup"
	"github.com/espalier-dev/espalier/internal/backup/archive"
)

// exportFlags are what is exported, and where to.
type exportFlags struct {
	where     clusterFlags
	output    string
	selection archive.Selection
	secrets   bool
}

func newExport() *cobra.Command {
	var flags exportFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write definitions, instances, managed resources and Bindings for 'espalier import'",
		Long: "Writes what a control plane needs to be restored, or to move to another cluster: the\n" +
			"namespaces, functions, compositions with their revisions, definitions, provider\n" +
			"configurations, managed resources, Bindings, instances (composites and claims among\n" +
			"them) and usages, as YAML documents after one that tells what there is. Nothing is changed.\n" +
			"Secrets are left out unless they are asked for; objects that instances make anew are\n" +
			"left out, and so are CustomResourceDefinitions of other people's kinds.\n\n" +
			"Before a move, stop the controllers of the cluster that is left, and then export.",
		Example: "  espalier export --output control-plane.yaml\n" +
			"  espalier export -n prod | gzip > prod.yaml.gz",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return export(cmd, flags) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.output, "output", "o", "-", "the file to write, of mode 0600; - for the standard output")
	cmd.Flags().StringSliceVarP(&flags.selection.Namespaces, "namespace", "n", nil, "only objects of these namespaces, with what they are composed of elsewhere, and all definitions")
	cmd.Flags().StringSliceVar(&flags.selection.Definitions, "definitions", nil, "only these definitions, with those whose kinds they compose, and the instances of all these")
	cmd.Flags().BoolVar(&flags.secrets, "include-secrets", false, "the Secrets of provider configurations, and those for functions, as well; who can read the file can read them")
	return cmd
}

func export(cmd *cobra.Command, flags exportFlags) error {
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	from, err := backup.Connect(config)
	if err != nil {
		return err
	}
	e := &backup.Export{
		Cluster: from, Selection: flags.selection, Secrets: flags.secrets, Version: Version(),
		ID: randomID(), Now: time.Now(), Say: teller(cmd.ErrOrStderr()),
	}
	header, err := writeExport(cmd.Context(), cmd.OutOrStdout(), flags.output, e)
	if err != nil {
		return err
	}
	for _, note := range header.Notes {
		e.Say("note: %s", note)
	}
	total := 0
	for _, n := range header.Counts {
		total += n
	}
	e.Say("wrote export %s of %d objects", header.ID, total)
	return nil
}

// writeExport writes to a file only when all of it is there: one that is there
// already stays as it is if anything fails.
func writeExport(ctx context.Context, stdout io.Writer, output string, e *backup.Export) (header archive.Header, err error) {
	if output == "-" {
		return e.Run(ctx, stdout)
	}
	file, err := os.CreateTemp(filepath.Dir(output), ".espalier-export-") // of mode 0600
	if err != nil {
		return header, err
	}
	header, err = e.Run(ctx, file)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), output)
	}
	if err != nil {
		return header, errors.Join(err, os.Remove(file.Name()))
	}
	return header, nil
}

// randomID is a text for names, which nobody else has.
func randomID() string { return strings.ToLower(rand.Text()[:12]) }

// teller tells people how far something is, line by line.
func teller(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}
