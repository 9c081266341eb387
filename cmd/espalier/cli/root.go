// Package cli holds the verbs of the espalier program.
// See docs/design/0015-modules-packages-and-the-embedded-server.md.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Exit codes. Scripts rely on them: none changes its meaning.
const (
	exitDone       = 0 // success
	exitFailed     = 1 // failure
	exitUsage      = 2 // invalid arguments
	exitBlocked    = 3 // a deletion is blocked, or an import is and wrote nothing
	exitUnfinished = 4 // a deletion or an import timed out, and nothing blocks it
	exitNotReady   = 5 // what is asked about is not ready
	exitChanges    = 6 // a plan would change something
)

// maxPrintedError bounds what is printed of an error, in bytes: it may quote texts of a cluster.
const maxPrintedError = 64 << 10

// Main runs the program with the given arguments and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	if isPlugin(os.Args[0]) {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl espalier"}
	}
	out := checkOutput(stdout)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if errors.Is(err, errNeedsAWS) {
		err = runAWS(args)
	}
	if err == nil {
		err = writeError(out)
	}
	if err == nil {
		return exitDone
	}
	if message := messageOf(ctx, cmd, err); message != "" {
		fmt.Fprintf(prose(stderr), "espalier: %s\n", diag.TruncateLines(message, maxPrintedError))
	}
	code := codeOf(err)
	if code == exitUsage {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

// messageOf returns what is printed of the error of a command. The error of an interrupted one says only that a context was canceled, or which
// signal was received: the message names the command, and what it did then.
func messageOf(ctx context.Context, cmd *cobra.Command, err error) string {
	message, signal := err.Error(), context.Cause(ctx)
	if message == "" || signal == nil || !errors.Is(err, signal) && !errors.Is(err, context.Canceled) {
		return message
	}
	interrupted := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ") + " was interrupted"
	for _, cause := range []error{signal, context.Canceled} {
		if message == cause.Error() {
			return interrupted
		}
		message = strings.TrimSuffix(message, ": "+cause.Error())
	}
	return interrupted + ": " + message
}

// isPlugin says whether a program was started by kubectl, which finds plugins by their names.
func isPlugin(program string) bool { return strings.HasPrefix(filepath.Base(program), "kubectl-") }

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

// codedError is an error with an exit code of its own. An empty message means that everything
// has been printed.
type codedError struct {
	code    int
	message string
}

func (e *codedError) Error() string { return e.message }

// usageError is an error in the arguments.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// addGroup adds commands under a heading of the help.
func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "espalier",
		Short: "A control plane for platform APIs: define a kind as a graph of resources",
		Long: "Espalier serves platform APIs on Kubernetes. A definition describes a kind as a\n" +
			"graph of resources; Espalier serves it, keeps each instance as desired, reports its\n" +
			"state in its status, and deletes its children in order when it is deleted.",
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	addGroup(root, "start", "Start:", newDemo(), newUp())
	addGroup(root, "write", "Write definitions:", newValidate(), newRender(), newTest(), newPlan(), newGraph(), newSchema(), newLSP(), newRBAC())
	addGroup(root, "look", "Look:", newStatus(), newTree(), newWhy(), newBlockers(), newUI(), newTop(), newWatches())
	addGroup(root, "operate", "Operate:", newInstall(), newRun(), newDoctor(), newGather(), newDelete(), newRollback(), newExport(), newImport(), newTakeover(),
		newHealth(), newUninstall())
	addGroup(root, "providers", "Providers:", newProvider(), newAWS())
	addGroup(root, "packages", "Packages:", newXpkg())
	addGroup(root, "other", "Other:", newVersion())
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	fitHelp(root)
	return root
}
