package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/uninstall"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/observe"
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
		Short: "Uninstall Espalier (without --yes: list what would remain)",
		Long: "Lists what remains without the controllers: definitions, instances and what they\n" +
			"consist of, and external resources. With --yes it then removes, in this order, the\n" +
			"webhook for deletions, the controllers, the conversion webhooks, and everything else\n" +
			"that 'espalier install' or the chart has created.\n\n" +
			"The CustomResourceDefinitions stay, and with them all objects, and so do the admission\n" +
			"policies: users can still write definitions, which a later installation finds. Objects\n" +
			"with finalizers of the controllers can no longer be deleted. Delete what you do not need\n" +
			"before, or give --release-finalizers: objects can then be deleted, and their children and\n" +
			"external resources stay.\n\n" +
			"Exit codes: 0 if everything was printed, or with --yes removed; 1 after a failure; 2 for\n" +
			"invalid arguments.",
		Example: "  espalier uninstall\n" +
			"  espalier uninstall --yes\n" +
			"  espalier uninstall --yes --release-finalizers",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUninstall(cmd, flags) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", defaultNamespace, "the namespace of the installation")
	cmd.Flags().BoolVar(&flags.yes, "yes", false, "uninstall")
	cmd.Flags().BoolVar(&flags.release, "release-finalizers", false,
		"with --yes: remove the controllers' finalizers from all objects; children and external resources stay")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 2*time.Minute, "timeout for the controllers to stop")
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
	config.WarningHandler = rest.NoWarnings{} // they are for the authors of objects
	out, ctx := cmd.OutOrStdout(), cmd.Context()
	cluster, err := uninstall.New(config, flags.namespace)
	if err != nil {
		return err
	}
	remaining, err := cluster.Remaining(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(out, remainingText(remaining, widthOf(out)))
	if !flags.yes {
		fmt.Fprintln(prose(out), "Nothing was changed; --yes uninstalls.")
		return nil
	}
	stopping, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	if err := cluster.Remove(stopping, func(step string) { fmt.Fprintln(prose(out), step) }); err != nil {
		return fmt.Errorf("%w; run it again", err)
	}
	if !flags.release {
		return nil
	}
	released, unreadable, err := cluster.Release(ctx)
	fmt.Fprintf(out, "finalizers of %s removed\n", diag.Counted(released, "object", "objects"))
	fmt.Fprint(prose(out), unreadableText(unreadable))
	if err != nil {
		return fmt.Errorf("%w; correct that, and run it again to remove the other finalizers", err)
	}
	return nil
}

// remainingText lists what remains, for a terminal of the given width; a width of 0 means no limit.
func remainingText(remaining uninstall.Remaining, width int) string {
	text := ""
	if len(remaining.Kinds) > 0 {
		table := [][]string{{"KIND", "OBJECTS"}}
		for _, k := range remaining.Kinds {
			objects := strconv.Itoa(k.Objects)
			if k.Finalizers > 0 {
				objects += fmt.Sprintf(", %d with finalizers", k.Finalizers)
			}
			if k.Deleting > 0 {
				objects += fmt.Sprintf(", %d being deleted", k.Deleting)
			}
			table = append(table, []string{k.Kind, objects})
		}
		text = "These objects stay:\n" + observe.WrapTable(table, width)
	}
	var b strings.Builder
	b.WriteString(unreadableText(remaining.Unreadable))
	fmt.Fprintf(&b, "%s, and so do the children of instances.\n", diag.Counted(remaining.CRDs, "CustomResourceDefinition stays", "CustomResourceDefinitions stay"))
	if n := remaining.Count("Binding.espalier.dev"); n > 0 {
		fmt.Fprintf(&b, "%s. Keep the Bindings: without them a later installation has to find external resources again.\n",
			diag.Counted(n, "external resource stays", "external resources stay"))
	}
	if n := remaining.Finalizers(); n > 0 {
		fmt.Fprintf(&b, "%s finalizers of the controllers and cannot be deleted without them; see --release-finalizers.\n",
			diag.Counted(n, "object has", "objects have"))
	}
	if remaining.Conversions > 0 {
		fmt.Fprintf(&b, "%s several versions, which are no longer converted: write objects in the stored version only.\n",
			diag.Counted(remaining.Conversions, "kind has", "kinds have"))
	}
	if len(remaining.Others) > 0 {
		fmt.Fprintf(&b, "%s the labels of the installation. This program does not remove them: another release might have installed them. Delete what you do not need:\n",
			diag.Counted(len(remaining.Others), "other object has", "other objects have"))
		for _, o := range remaining.Others {
			b.WriteString("  " + o + "\n")
		}
	}
	if n := len(remaining.Unsearched); n > 0 {
		fmt.Fprintf(&b, "%s be listed, and might have objects with the labels of the installation: %s.\n", diag.Counted(n, "kind cannot", "kinds cannot"),
			strings.Join(remaining.Unsearched, ", "))
	}
	if remaining.Helm != "" {
		fmt.Fprintf(&b, "Helm manages the installation: run 'helm uninstall %s --namespace %s' afterwards.\n", remaining.Helm, remaining.Namespace)
	}
	return text + diag.WrapLines(b.String(), width)
}

// unreadableText lists the kinds with objects that could not be counted or released; empty if there are none.
func unreadableText(errs []string) string {
	if len(errs) == 0 {
		return ""
	}
	text := fmt.Sprintf("The objects of %s cannot be read, and might have finalizers of the controllers:\n", diag.Counted(len(errs), "kind", "kinds"))
	for _, err := range errs {
		text += "  " + err + "\n"
	}
	return text
}
