package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/migration/backup"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
)

// importFlags are the flags of import.
type importFlags struct {
	where  clusterFlags
	dryRun bool
	abort  bool
	wait   time.Duration
	// accounts are those that revisions may have although their definitions do not name them.
	accounts []string
	maxBytes int64
}

func newImport() *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Restore an export, with the controllers suspended until it is complete",
		Long: "Restores an export in a cluster that has none of its objects, except for namespaces. A\n" +
			"Hold suspends the controllers, which should run, so that none acts on half of it; they\n" +
			"continue when it is complete. If the import fails, they stay suspended: --abort deletes\n" +
			"what it has created, and touches no external resource. Then run it again.\n\n" +
			"It prints one line for each object. --dry-run prints the same lines, and has the API\n" +
			"server check the creations. If an object exists, or FILE contains what no export does,\n" +
			"all of that is reported and nothing is written. FILE may be - for the standard input.\n\n" +
			"Exit codes:\n" +
			"  0  everything is restored\n" +
			"  1  it failed: run it with --abort, and again\n" +
			"  2  the arguments are invalid\n" +
			"  3  objects exist, or FILE is not acceptable; nothing was written\n" +
			"  4  kinds were not served in time: run it with --abort, and again",
		Example: "  espalier import --dry-run control-plane.yaml\n" +
			"  espalier import control-plane.yaml\n" +
			"  gunzip -c prod.yaml.gz | espalier import -",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("%s takes a file, not %d arguments", cmd.Name(), len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return restore(cmd, flags, args[0]) },
	}
	flags.where.add(cmd)
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "print what would be created, and what is in the way; write nothing")
	cmd.Flags().BoolVar(&flags.abort, "abort", false, "delete what a failed import of FILE has created")
	cmd.Flags().StringSliceVar(&flags.accounts, "allow-account", nil,
		"accounts to accept in revisions although their definition in FILE names another: NAMESPACE/NAME, or \"controllers\"")
	cmd.Flags().Int64Var(&flags.maxBytes, "max-bytes", archive.MaxBytes, "maximum size of FILE, uncompressed; all of it is read into memory")
	cmd.Flags().DurationVar(&flags.wait, "wait", 2*time.Minute, "timeout for kinds that definitions in FILE define")
	return cmd
}

func restore(cmd *cobra.Command, flags importFlags, path string) error {
	if flags.dryRun && flags.abort {
		return &usageError{errors.New("--dry-run and --abort can't be combined")}
	}
	if flags.maxBytes <= 0 {
		return &usageError{errors.New("--max-bytes must be positive")}
	}
	file, err := readExport(cmd.InOrStdin(), path, flags.maxBytes)
	if err != nil {
		return err
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	to, err := backup.Connect(config)
	if err != nil {
		return err
	}
	show := func(step backup.Step) { fmt.Fprintln(prose(cmd.OutOrStdout()), diag.Printable(step.String())) }
	i := &backup.Import{
		Cluster: to, File: file, AllowedAccounts: flags.accounts, Holder: holder(), Patience: flags.wait,
		Progress: lineLogger(cmd.ErrOrStderr()), Done: show,
	}
	switch {
	case flags.abort:
		err = i.Abort(cmd.Context())
	case flags.dryRun:
		var steps []backup.Step
		steps, err = i.Plan(cmd.Context())
		for _, step := range steps {
			show(step)
		}
	default:
		err = i.Run(cmd.Context())
	}
	return importError(err)
}

// importError gives an import's error its exit code.
func importError(err error) error {
	var problems *backup.ProblemsError
	var kinds *backup.KindsError
	switch {
	case errors.As(err, &problems):
		return &codedError{exitBlocked, err.Error()}
	case errors.As(err, &kinds):
		return &codedError{exitUnfinished, err.Error()}
	}
	return err
}

func readExport(stdin io.Reader, path string, maxBytes int64) (archive.File, error) {
	if path == "-" {
		return archive.Decode(stdin, maxBytes)
	}
	file, err := os.Open(path)
	if err != nil {
		return archive.File{}, err
	}
	defer file.Close()
	out, err := archive.Decode(file, maxBytes)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return out, err
}

// holder identifies this process in the Hold.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "somewhere"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), randomID())
}
