package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/observe"
)

// treeFlags are which trees are to be shown, and how.
type treeFlags struct {
	instanceFlags
	watch         bool
	allNamespaces bool
}

func newTree() *cobra.Command {
	var flags treeFlags
	cmd := &cobra.Command{
		Use:   "tree KIND [NAME]",
		Short: "Show an instance, what it is made of, and what that waits for",
		Long: "Shows an instance and all that it is made of, down to the last object, with what\n" +
			"is there, what is ready, and what the rest waits for or what is wrong with it; and\n" +
			"of what is to go, how far it is and what holds it up.\n\n" +
			"Of a definition, its instances are shown below it: those of all namespaces, or those\n" +
			"of --namespace. Without a name, all objects of the kind are shown.\n\n" + kindNames,
		Example: "  espalier tree eksclusterwithvpc/demo\n" +
			"  espalier tree vpcs.kro.run main -n prod --watch\n" +
			"  espalier tree vpc --all-namespaces\n" +
			"  espalier tree rgd vpc",
		Args: func(cmd *cobra.Command, args []string) error {
			_, name, err := named(cmd.Name(), args)
			if err == nil && name != "" && flags.allNamespaces {
				err = &usageError{errors.New("--all-namespaces is about all objects of a kind; leave out the name, or name the namespace")}
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := named(cmd.Name(), args)
			if err != nil {
				return err
			}
			return tree(cmd, flags, kind, name)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "keep showing what changes")
	cmd.Flags().BoolVarP(&flags.allNamespaces, "all-namespaces", "A", false, "without a name: the objects of all namespaces")
	return cmd
}

func tree(cmd *cobra.Command, flags treeFlags, kind, name string) error {
	shown, err := flags.find(kind, name)
	if err != nil {
		return err
	}
	if shown.target.Namespace == "" {
		shown.target.InstancesIn = flags.namespace
	}
	if flags.allNamespaces {
		shown.target.Namespace = ""
	}
	world, err := shown.Gather(cmd.Context(), shown.target)
	if err != nil {
		return err
	}
	shown.tellHolds(cmd.Context(), cmd.ErrOrStderr())
	if !flags.watch {
		return printTree(cmd, shown.target, world, flags.output)
	}
	err = watchTree(cmd, shown, flags.output)
	if errors.Is(err, context.Canceled) {
		return nil // that is how watching ends
	}
	return err
}

func printTree(cmd *cobra.Command, of follow.Target, w observe.World, output string) error {
	now := time.Now()
	to := cmd.OutOrStdout()
	if output == "json" {
		_, err := to.Write(treeJSON(w, now))
		return err
	}
	rows := rowsOf(w, now)
	if len(rows) == 0 {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "there are none: %s\n", of)
		return err
	}
	width := widthOf(to)
	text := observe.Table(rows, width)
	if notes := observe.Notes(rows, width); len(notes) > 0 {
		text += "\n" + strings.Join(notes, "\n") + "\n"
	}
	_, err := io.WriteString(to, text)
	return err
}

// rowsOf are the rows of a world's tree, or of its trees.
func rowsOf(w observe.World, now time.Time) []observe.Row {
	switch {
	case w.Gone():
		return nil
	case w.Many:
		return observe.RowsOf(observe.BuildAll(w, now), now)
	}
	return observe.Rows(observe.Build(w, now), now)
}

// treeJSON is a world's tree as a document, or a list of its trees.
func treeJSON(w observe.World, now time.Time) []byte {
	if w.Many {
		return observe.JSONOf(observe.BuildAll(w, now))
	}
	return observe.Build(w, now).JSON()
}

// watchTree shows a tree until it is gone or nobody wants to look any longer.
func watchTree(cmd *cobra.Command, shown instance, output string) error {
	return shown.watch(cmd.Context(), func(ctx context.Context, worlds <-chan observe.World) error {
		screen, ok := terminal(cmd.OutOrStdout())
		switch {
		case output == "json":
			return treeDocuments(ctx, cmd.OutOrStdout(), worlds)
		case ok:
			return treeScreen(ctx, screen, shown.target.String(), worlds)
		}
		return treeLines(ctx, cmd.OutOrStdout(), worlds)
	})
}
