package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/uninstall"
)

// uninstallFlags are the flags of uninstall.
type uninstallFlags struct {
	where     clusterFlags
	namespace string
	yes       bool
	release   bool
	timeout   time.Duration
}

func newUninstall() *cobra.Command {
	var flags uninstallFlags
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Say what stays when Espalier is uninstalled; with --yes, uninstall it",
		Long: "Prints what lives on without the controllers: definitions, instances and what they\n" +
			"consist of, and external resources. With --yes it then removes, in this order, the\n" +
			"webhook for deletions, the controllers, the conversion webhooks, and everything else\n" +
			"that 'espalier install' or the chart has created.\n\n" +
			"The CustomResourceDefinitions stay, and with them all objects, and so do the admission\n" +
			"policies: somebody may write definitions that a later installation finds. Objects that\n" +
			"have finalizers of the controllers cannot be deleted any more. Delete what you do not\n" +
			"need before, or give --release-finalizers: objects can then be deleted, and what they\n" +
			"consist of, children and external resources, stays.",
		Example: "  espalier uninstall\n" +
			"  espalier uninstall --yes\n" +
			"  espalier uninstall --yes --release-finalizers",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return &usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runUninstall(cmd, flags) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", defaultNamespace, "the namespace of the installation")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "uninstall")
	cmd.Flags().BoolVar(&flags.release, "release-finalizers", false, "with --yes: remove the finalizers of the controllers from all objects, so that these can be deleted; their children and external resources stay")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 2*time.Minute, "how long to wait until the controllers have stopped")
	return cmd
}

func runUninstall(cmd *cobra.Command, flags uninstallFlags) error {
	if flags.release && !flags.yes {
		return &usageError{errors.New("--release-finalizers requires --yes")}
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	out, ctx := cmd.OutOrStdout(), cmd.Context()
	cluster, err := uninstall.New(config, flags.namespace)
	if err != nil {
		return err
	}
	remaining, err := cluster.Remaining(ctx)
	if err != nil {
		return err
	}
	printRemaining(out, remaining)
	if !flags.yes {
		return &codedError{code: exitBlocked, message: "nothing was changed; --yes uninstalls"}
	}
	stopping, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	if err := cluster.Remove(stopping, func(step string) { fmt.Fprintln(out, step) }); err != nil {
		return fmt.Errorf("%w; run it again", err)
	}
	if !flags.release {
		return nil
	}
	released, unreadable, err := cluster.Release(ctx)
	fmt.Fprintf(out, "finalizers of %d objects removed\n", released)
	printUnreadable(out, unreadable)
	return err
}

// printRemaining prints what lives on.
func printRemaining(out io.Writer, remaining uninstall.Remaining) {
	if len(remaining.Kinds) > 0 {
		fmt.Fprintln(out, "These objects stay:")
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "KIND\tOBJECTS\tWITH FINALIZERS\tBEING DELETED")
		for _, k := range remaining.Kinds {
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", k.Kind, k.Objects, k.Finalizers, k.Deleting)
		}
		_ = table.Flush()
	}
	printUnreadable(out, remaining.Unreadable)
	fmt.Fprintf(out, "%d CustomResourceDefinitions stay, and so do the children of instances.\n", remaining.CRDs)
	if n := remaining.Count("Binding.espalier.dev"); n > 0 {
		fmt.Fprintf(out, "%d external resources stay. Keep their Bindings: without them a later installation has to find them again.\n", n)
	}
	if n := remaining.Finalizers(); n > 0 {
		fmt.Fprintf(out, "%d objects have finalizers of the controllers and cannot be deleted without them; see --release-finalizers.\n", n)
	}
	if remaining.Conversions > 0 {
		fmt.Fprintf(out, "%d kinds have several versions, which are not converted any more: write their objects in the stored version only.\n", remaining.Conversions)
	}
	if remaining.Helm != "" {
		fmt.Fprintf(out, "Helm manages the installation: run 'helm uninstall %s --namespace %s' afterwards.\n", remaining.Helm, remaining.Namespace)
	}
}

// printUnreadable prints the kinds with objects that could not be counted or released.
func printUnreadable(out io.Writer, errs []string) {
	if len(errs) == 0 {
		return
	}
	fmt.Fprintf(out, "The objects of %d kinds cannot be read, and may have finalizers of the controllers:\n", len(errs))
	for _, err := range errs {
		fmt.Fprintf(out, "  %s\n", err)
	}
}
