package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/view"
)

// treeFlags are how a tree is to be shown.
type treeFlags struct {
	where     clusterFlags
	namespace string
	watch     bool
	output    string
}

func newTree() *cobra.Command {
	var flags treeFlags
	cmd := &cobra.Command{
		Use:   "tree KIND NAME",
		Short: "Show an instance, what it is made of, and what that waits for",
		Long: "Shows an instance and all that it is made of, down to the last object, with what\n" +
			"is there, what is ready, and what the rest waits for. KIND may be a kind, its\n" +
			"plural or singular, a short name, and may end in .GROUP.",
		Example: "  espalier tree eksclusterwithvpc demo\n" +
			"  espalier tree vpcs.kro.run main -n prod --watch",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{fmt.Errorf("tree takes a kind and a name, not %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return tree(cmd, flags, args[0], args[1])
		},
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "the instance's namespace; by default that of the context")
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "keep showing what changes")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "json, for programs")
	return cmd
}

func tree(cmd *cobra.Command, flags treeFlags, kind, name string) error {
	if flags.output != "" && flags.output != "json" {
		return &usageError{fmt.Errorf("--output can be json, not %q", flags.output)}
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	kinds, err := newKinds(config)
	if err != nil {
		return err
	}
	newLogger(io.Discard, 0) // what watches complain about would tear the screen
	namespace, err := flags.namespaceOrDefault()
	if err != nil {
		return err
	}
	target, err := kinds.target(kind, namespace, name)
	if err != nil {
		return err
	}
	world, err := gather(cmd.Context(), client, kinds, target)
	if err != nil {
		return err
	}
	if !flags.watch {
		return printTree(cmd.OutOrStdout(), world, flags.output)
	}
	err = watchTree(cmd, client, kinds, target, flags.output)
	if errors.Is(err, context.Canceled) {
		return nil // that is how watching ends
	}
	return err
}

func (f treeFlags) namespaceOrDefault() (string, error) {
	if f.namespace != "" {
		return f.namespace, nil
	}
	namespace, _, err := f.where.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("which namespace? %w", err)
	}
	return namespace, nil
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
func watchTree(cmd *cobra.Command, client dynamic.Interface, kinds *kinds, target target, output string) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	worlds := make(chan view.World)
	done := make(chan error, 1)
	go func() { done <- follow(ctx, client, kinds, target, worlds) }()
	var err error
	switch screen, ok := terminal(cmd.OutOrStdout()); {
	case output == "json":
		err = treeDocuments(ctx, cmd.OutOrStdout(), worlds)
	case ok:
		err = treeScreen(ctx, screen, target, worlds)
	default:
		err = treeLines(ctx, cmd.OutOrStdout(), worlds)
	}
	stop()
	if followed := <-done; err == nil {
		err = followed
	}
	return err
}
