package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/view"
)

// treeFlags are how a tree is to be shown.
type treeFlags struct {
	instanceFlags
	watch bool
}

func newTree() *cobra.Command {
	var flags treeFlags
	cmd := &cobra.Command{
		Use:   "tree KIND NAME",
		Short: "Show an instance, what it is made of, and what that waits for",
		Long: "Shows an instance and all that it is made of, down to the last object, with what\n" +
			"is there, what is ready, and what the rest waits for; and of what is to go, how\n" +
			"far it is and what holds it up.\n\n" + kindNames,
		Example: "  espalier tree eksclusterwithvpc demo\n" +
			"  espalier tree vpcs.kro.run main -n prod --watch",
		Args: kindAndName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return tree(cmd, flags, args[0], args[1])
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "keep showing what changes")
	return cmd
}

func tree(cmd *cobra.Command, flags treeFlags, kind, name string) error {
	shown, world, err := flags.look(cmd.Context(), kind, name)
	if err != nil {
		return err
	}
	shown.tellHolds(cmd.Context(), cmd.ErrOrStderr())
	if !flags.watch {
		return printTree(cmd.OutOrStdout(), world, flags.output)
	}
	err = watchTree(cmd, shown, flags.output)
	if errors.Is(err, context.Canceled) {
		return nil // that is how watching ends
	}
	return err
}

func printTree(to io.Writer, w view.World, output string) error {
	now := time.Now()
	root := view.Build(w, now)
	if output == "json" {
		_, err := to.Write(root.JSON())
		return err
	}
	_, err := io.WriteString(to, view.Table(view.Rows(root, now), 0))
	return err
}

// watchTree shows a tree until it is gone or nobody wants to look any longer.
func watchTree(cmd *cobra.Command, shown instance, output string) error {
	return shown.watch(cmd.Context(), func(ctx context.Context, worlds <-chan view.World) error {
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
