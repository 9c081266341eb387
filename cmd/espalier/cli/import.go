package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/backup"
	"github.com/espalier-dev/espalier/internal/backup/archive"
)

// importFlags are where an export is restored, and how.
type importFlags struct {
	where  clusterFlags
	dryRun bool
	abort  bool
	wait   time.Duration
}

func newImport() *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Restore what 'espalier export' wrote, with the controllers held until all is there",
		Long: "Restores an export. The controllers, which should run, are held by a Hold, so that\n" +
			"none acts on half of it; when all is there, they go on. If it is interrupted, they\n" +
			"stay held: run it again, and it goes on where it was, or take back what it has made\n" +
			"with --abort, which touches no external resource.\n\n" +
			"Nothing that is there is overwritten. What is in the way is told all at once, and\n" +
			"nothing is written then. FILE may be - for the standard input.\n\n" +
			"Exit codes:\n" +
			"  0  everything is there\n" +
			"  1  it failed; run it again\n" +
			"  2  the call can't be meant\n" +
			"  3  something is in the way, and nothing was written\n" +
			"  4  kinds weren't served in time; the controllers are held; run it again",
		Example: "  espalier import --dry-run control-plane.yaml\n" +
			"  espalier import control-plane.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{fmt.Errorf("%s takes a file, not %d arguments", cmd.Name(), len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return restore(cmd, flags, args[0]) },
	}
	flags.where.add(cmd)
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "tell what would be created and kept, and what is in the way; write nothing")
	cmd.Flags().BoolVar(&flags.abort, "abort", false, "take back what an import of FILE has made that didn't end")
	cmd.Flags().DurationVar(&flags.wait, "wait", 2*time.Minute, "for how long kinds are waited for that definitions in FILE define")
	return cmd
}

func restore(cmd *cobra.Command, flags importFlags, path string) error {
	if flags.dryRun && flags.abort {
		return &usageError{errors.New("--dry-run and --abort can't be combined")}
	}
	file, err := readExport(cmd.InOrStdin(), path)
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
	i := &backup.Import{Cluster: to, File: file, Holder: holder(), Patience: flags.wait, Say: teller(cmd.ErrOrStderr())}
	switch {
	case flags.abort:
		err = i.Abort(cmd.Context())
	case flags.dryRun:
		var steps []string
		if steps, err = i.Plan(cmd.Context()); err == nil {
			for _, step := range steps {
				fmt.Fprintln(cmd.OutOrStdout(), step)
			}
		}
	default:
		err = i.Run(cmd.Context())
	}
	return importError(err)
}

// importError gives what ends an import its exit code.
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

func readExport(stdin io.Reader, path string) (archive.File, error) {
	if path == "-" {
		return archive.Decode(stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return archive.File{}, err
	}
	defer file.Close()
	out, err := archive.Decode(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return out, err
}

// holder names this very call.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "somewhere"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), randomID())
}
