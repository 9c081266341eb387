package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// treeFlags are the flags of tree.
type treeFlags struct {
	instanceFlags
	watch         bool
	allNamespaces bool
}

func newTree() *cobra.Command {
	var flags treeFlags
	cmd := &cobra.Command{
		Use:   "tree KIND [NAME]",
		Short: "Show an instance, its children, and what they wait for",
		Long: "Shows an instance with all objects below it: which exist, which are ready, and what\n" +
			"the others wait for or which problem they have; for objects that are being removed,\n" +
			"the progress and the blockers.\n\n" +
			"For a definition, its instances are shown below it: those of all namespaces, or those\n" +
			"of --namespace. Without a name, all objects of the kind are shown.\n\n" + kindNames,
		Example: "  espalier tree eksclusterwithvpc/demo\n" +
			"  espalier tree vpcs.kro.run main -n prod --watch\n" +
			"  espalier tree vpc --all-namespaces\n" +
			"  espalier tree rgd vpc",
		Args: func(cmd *cobra.Command, args []string) error {
			_, name, err := parseKindAndName(cmd.Name(), args)
			if err == nil && name != "" && flags.allNamespaces {
				err = &usageError{errors.New("--all-namespaces excludes a name; omit one of them")}
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := parseKindAndName(cmd.Name(), args)
			if err != nil {
				return err
			}
			return tree(cmd, flags, kind, name)
		},
	}
	cmd.ValidArgsFunction = flags.completeObjects
	flags.add(cmd)
	flags.cluster.addFrom(cmd)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "show changes until interrupted")
	cmd.MarkFlagsMutuallyExclusive("from", "watch")
	cmd.Flags().BoolVarP(&flags.allNamespaces, "all-namespaces", "A", false, "without a name: the objects of all namespaces")
	return cmd
}

func tree(cmd *cobra.Command, flags treeFlags, kind, name string) error {
	shown, err := flags.find(cmd.Context(), cmd.ErrOrStderr(), kind, name)
	if err != nil {
		return err
	}
	if shown.target.Namespace == "" {
		shown.target.InstancesIn = flags.namespace
	}
	if flags.allNamespaces {
		shown.target.Namespace = ""
	}
	state, err := follow.Gather(cmd.Context(), shown.Cluster, shown.target)
	if err != nil {
		return err
	}
	printUnreadable(cmd.ErrOrStderr(), state)
	shown.printHolds(cmd.Context(), cmd.ErrOrStderr())
	if !flags.watch {
		return printTree(cmd, shown.target, state, flags.output)
	}
	err = watchTree(cmd, shown, flags.output)
	if errors.Is(err, context.Canceled) {
		return nil // interrupted by the user
	}
	return err
}

func printTree(cmd *cobra.Command, of reader.Target, w observe.ClusterState, output outputFlag) error {
	now := time.Now()
	to := cmd.OutOrStdout()
	if output != tableOutput {
		return output.print(to, json.RawMessage(treeJSON(w, now)), nil)
	}
	rows := rowsOf(w, now)
	if len(rows) == 0 {
		_, err := fmt.Fprintf(prose(cmd.ErrOrStderr()), "no objects found: %s\n", of)
		return err
	}
	if screen, ok := terminal(to); ok {
		width := widthOf(to)
		return printColoured(screen, strings.Join(append(drawRows(rows, width, 0), drawNotes(observe.Notes(rows, max(width-1, 0)), 0, 0)...), "\n"))
	}
	_, err := io.WriteString(to, observe.Text(rows, widthOf(to)))
	return err
}

// rowsOf returns the rows of the tree or, with AllOfKind, of all trees.
func rowsOf(w observe.ClusterState, now time.Time) []observe.Row {
	switch {
	case w.Gone():
		return nil
	case w.AllOfKind:
		return observe.RowsOf(observe.BuildAll(w, now), now)
	}
	return observe.Rows(observe.Build(w, now), now)
}

// treeJSON returns the tree as JSON or, with AllOfKind, all trees as a list.
func treeJSON(w observe.ClusterState, now time.Time) []byte {
	if w.AllOfKind {
		return observe.JSONOf(observe.BuildAll(w, now))
	}
	return observe.Build(w, now).JSON()
}

// watchTree shows a tree until it is gone or the user interrupts.
func watchTree(cmd *cobra.Command, shown instance, output outputFlag) error {
	return shown.watch(cmd.Context(), func(ctx context.Context, states <-chan observe.ClusterState) error {
		screen, ok := terminal(cmd.OutOrStdout())
		switch {
		case output != tableOutput:
			return treeDocuments(ctx, cmd.OutOrStdout(), output, states)
		case ok:
			return treeScreen(ctx, screen, shown.target.String(), states)
		}
		return treeLines(ctx, cmd.OutOrStdout(), states)
	})
}
