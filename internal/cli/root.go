// Package cli holds the verbs of the espalier program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Main runs the program with the given arguments and returns its exit code: 0
// when what was asked for was done, 1 when it wasn't, 2 for a wrong call.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "espalier: %v\nRun 'espalier help' for the calls there are.\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "espalier: %v\n", err)
	return 1
}

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
	root.AddCommand(newUp(), newRun(), newTree(), newWatches(), newDemo(), newVersion())
	return root
}
