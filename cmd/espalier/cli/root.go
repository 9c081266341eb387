// Package cli holds the verbs of the espalier program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes. Scripts rely on them: none changes its meaning.
const (
	exitDone       = 0 // what was asked for is done
	exitFailed     = 1 // it isn't
	exitUsage      = 2 // the call can't be meant
	exitBlocked    = 3 // something is in the way of a deletion, or of an import that wrote nothing
	exitUnfinished = 4 // a deletion or an import takes longer than it may, and nothing is in its way
)

// Main runs the program with the given arguments and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if said := err.Error(); said != "" {
		fmt.Fprintf(stderr, "espalier: %s\n", said)
	}
	code := codeOf(err)
	if code == exitUsage {
		fmt.Fprintln(stderr, "Run 'espalier help' for the calls there are.")
	}
	return code
}

func codeOf(err error) int {
	var usage *usageError
	var coded *codedError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &coded):
		return coded.code
	}
	return exitFailed
}

// codedError ends a call with an exit code of its own. Without a message, what
// there is to say has been printed.
type codedError struct {
	code    int
	message string
}

func (e *codedError) Error() string { return e.message }

// usageError is a call that can't be meant.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "espalier",
		Short: "A control plane for platform APIs: define a kind as a graph of resources",
		Long: "Espalier serves platform APIs on Kubernetes. A definition describes a kind as a\n" +
			"graph of resources; Espalier serves it, keeps each instance true, tells the\n" +
			"truth about it in its status, and takes it apart in order when it is deleted.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newUp(), newRun(), newTree(), newDelete(), newBlockers(), newRollback(), newWatches(), newExport(), newImport(), newTakeover(), newDemo(), newProvider(), newRBAC(), newVersion())
	return root
}
