package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
)

// watchesFlags are the flags of watches.
type watchesFlags struct {
	program socketFlags
	output  outputFlag
}

func newWatches() *cobra.Command {
	var flags watchesFlags
	cmd := &cobra.Command{
		Use:   "watches",
		Short: "Show what the running controllers watch, and what they cannot watch",
		Long: "Shows the watches of the running espalier: each kind with its subscribers, its state\n" +
			"and, if it cannot be watched, why. The program must run on this machine, or in this\n" +
			"container, as this user; it is found by the cluster of the kubeconfig. Of several\n" +
			"replicas only the leader answers: the lease names its pod.",
		Example: "  espalier watches\n" +
			"  kubectl -n espalier-system exec $(kubectl -n espalier-system get lease espalier.espalier.dev \\\n" +
			"    -o jsonpath='{.spec.holderIdentity}' | cut -d_ -f1) \\\n" +
			"    -- /espalier watches -o json",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return watches(cmd, flags) },
	}
	flags.program.add(cmd)
	flags.output.add(cmd)
	return cmd
}

func watches(cmd *cobra.Command, flags watchesFlags) error {
	socket, program, err := flags.program.path()
	if err != nil {
		return err
	}
	all, err := introspect.ListWatches(cmd.Context(), socket)
	if err != nil {
		return unreachable(err, program)
	}
	return printWatches(cmd.OutOrStdout(), all, flags.output)
}

func printWatches(to io.Writer, all []introspect.Watch, output outputFlag) error {
	return output.printText(to, all, watchesText(all, widthOf(to)))
}
