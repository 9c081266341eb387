package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/migration/backup"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
)

// exportFlags are the flags of export.
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
		Long: "Writes what is needed to restore a control plane, or to move it to another cluster: the\n" +
			"namespaces, functions, compositions with their revisions, definitions, provider\n" +
			"configurations, managed resources, Bindings, instances (composites and claims among\n" +
			"them) and usages, as YAML documents after a header. Nothing is changed. Secrets are left\n" +
			"out unless --include-secrets is set; children that instances create again are left\n" +
			"out, and so are CustomResourceDefinitions of foreign kinds.\n\n" +
			"Before a move, stop the controllers of the old cluster, and then export.",
		Example: "  espalier export --output control-plane.yaml\n" +
			"  espalier export -n prod | gzip > prod.yaml.gz",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return export(cmd, flags) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.output, "output", "o", "-", "the file to write, of mode 0600; - for the standard output")
	cmd.Flags().StringSliceVarP(&flags.selection.Namespaces, "namespace", "n", nil,
		"namespaces to export, with all definitions and what the objects compose elsewhere")
	cmd.Flags().StringSliceVar(&flags.selection.Definitions, "definitions", nil,
		"definitions to export, with those that they compose, and the instances of all of them")
	cmd.Flags().BoolVar(&flags.secrets, "include-secrets", false,
		"include the Secrets of provider configurations and functions; every reader of the file can read them")
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
		ID: randomID(), Now: time.Now(), Progress: lineLogger(cmd.ErrOrStderr()),
	}
	header, err := writeExport(cmd.Context(), cmd.OutOrStdout(), flags.output, e)
	if err != nil {
		return exportError(err)
	}
	for _, note := range header.Notes {
		e.Progress("note: %s", note)
	}
	total := 0
	for _, n := range header.Counts {
		total += n
	}
	e.Progress("wrote export %s of %s", header.ID, diag.Counted(total, "object", "objects"))
	return nil
}

// exportError adds to a refusal what an export reads.
func exportError(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w\nan export reads all that it writes, and even with --namespace all definitions, CustomResourceDefinitions and the Namespace kube-system: use an account that is allowed to read them, such as a cluster administrator's", err)
}

// writeExport writes to a file, or to the standard output.
func writeExport(ctx context.Context, stdout io.Writer, output string, e *backup.Export) (header archive.Header, err error) {
	if output == "-" {
		return e.Run(ctx, stdout)
	}
	err = replaceFile(output, func(w io.Writer) (err error) {
		header, err = e.Run(ctx, w)
		return err
	})
	return header, err
}

// randomID is a random unique id.
func randomID() string { return strings.ToLower(rand.Text()[:12]) }

// lineLogger returns a function that prints progress line by line.
func lineLogger(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintln(prose(w), diag.Printable(fmt.Sprintf(format, args...))) }
}
