package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/offline"
	"github.com/espalier-dev/espalier/internal/observe/gather"
)

// gatherFlags are the flags of gather.
type gatherFlags struct {
	where      clusterFlags
	namespaces []string
	output     string
}

func newGather() *cobra.Command {
	var flags gatherFlags
	cmd := &cobra.Command{
		Use:   "gather",
		Short: "Collect a support archive (no Secret data)",
		Long: "Writes definitions, their revisions and CustomResourceDefinitions, instances, what they consist of,\n" +
			"managed resources, Bindings, functions, usages, and the events about all of them to a compressed tar\n" +
			"archive of YAML files, of mode 0600. Values of Secrets are replaced. ConfigMaps and other objects are\n" +
			"written as they are: look for secrets there before you share the archive.\n\n" +
			"What you are not allowed to read is left out, and listed in the archive's notes.txt and on the standard error. If\n" +
			"nothing can be read, no archive is written, and the command fails.\n\n" +
			"'espalier status', 'why', 'tree' and 'blockers' read the archive in place of the cluster with --from; so they do\n" +
			"with exports, and with directories and archives of YAML files that other programs have written.",
		Example: "  espalier gather -o incident.tar.gz\n" +
			"  espalier gather -n team-a -n team-b -o incident.tar.gz\n" +
			"  espalier why webapp/shop --from incident.tar.gz",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringSliceVarP(&flags.namespaces, "namespace", "n", nil, "namespaces of the namespaced objects to collect; repeatable")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "espalier-gather.tar.gz", "the file to write, or - for the standard output")
	return cmd
}

func (f *gatherFlags) run(cmd *cobra.Command) error {
	config, err := f.where.config()
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NoWarnings{} // they are for the authors of objects
	record, err := gather.Collect(cmd.Context(), config, f.namespaces)
	if err != nil {
		return err
	}
	for _, note := range record.Notes {
		fmt.Fprintln(prose(cmd.ErrOrStderr()), "note: "+note)
	}
	if len(record.Objects) == 0 {
		return f.nothingGathered(record.Notes)
	}
	if f.output == "-" {
		return record.Write(cmd.OutOrStdout(), time.Now())
	}
	if err := replaceFile(f.output, func(w io.Writer) error { return record.Write(w, time.Now()) }); err != nil {
		return err
	}
	fmt.Fprintf(prose(cmd.ErrOrStderr()), "wrote %s to %s\n", diag.Counted(len(record.Objects), "object", "objects"), f.output)
	return nil
}

// nothingGathered says why there is no archive: one without objects explains nothing, and would take the place of one that does.
func (f *gatherFlags) nothingGathered(notes []string) error {
	const text = "there is nothing to gather, and no archive is written: "
	switch {
	case len(notes) == 0:
		return errors.New(text + "the cluster has none of the objects; check the context of the kubeconfig, and --namespace")
	case len(f.namespaces) == 0:
		return errors.New(text + "no object could be read; name namespaces that you are allowed to read with --namespace, or use an account that is allowed to list what the notes name")
	}
	return errors.New(text + "no object could be read; use an account that is allowed to list what the notes name")
}

// recordedConfig is a connection to a record of a cluster. Notes say what could not be read when it was written.
func recordedConfig(path string) (config *rest.Config, notes []string, err error) {
	record, err := gather.Read(path)
	if err != nil {
		return nil, nil, err
	}
	return offline.Open(record.Objects), record.Notes, nil
}

// maxPrintedNotes bounds the notes of a record that a command prints.
const maxPrintedNotes = 10

// printRecordNotes prints what could not be read when a record was written: what is missing in it may exist.
func printRecordNotes(out io.Writer, notes []string) {
	for _, note := range notes[:min(len(notes), maxPrintedNotes)] {
		fmt.Fprintf(prose(out), "note: the record lacks what could not be read when it was written: %s\n", note)
	}
	if more := len(notes) - maxPrintedNotes; more > 0 {
		fmt.Fprintf(prose(out), "note: the record has %s, in its notes.txt\n", diag.Counted(more, "more note", "more notes"))
	}
}
