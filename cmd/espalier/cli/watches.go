package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/manager/introspect"
)

// watchesFlags are whom to ask, and how to show the answer.
type watchesFlags struct {
	where  clusterFlags
	socket string
	output string
}

func newWatches() *cobra.Command {
	var flags watchesFlags
	cmd := &cobra.Command{
		Use:   "watches",
		Short: "Show what the running controllers watch, and what they can't",
		Long: "Asks the espalier that runs for the cluster what it watches: which kinds, for how\n" +
			"many, whether it sees them, and if not, why. It must run on this machine, or in\n" +
			"this container, as this user; the kubeconfig says which one is meant.",
		Example: "  espalier watches\n" +
			"  kubectl exec -n espalier deploy/espalier -- espalier watches -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return watches(cmd, flags) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVar(&flags.socket, "socket", "", "the socket to ask on, where the program was told one with --introspection-socket")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "json, for programs")
	return cmd
}

func watches(cmd *cobra.Command, flags watchesFlags) error {
	if flags.output != "" && flags.output != "json" {
		return &usageError{fmt.Errorf("--output can be json, not %q", flags.output)}
	}
	socket, whose, err := flags.place()
	if err != nil {
		return err
	}
	all, err := introspect.Ask(cmd.Context(), socket)
	var nobody *introspect.NobodyError
	if errors.As(err, &nobody) {
		return fmt.Errorf("nobody listens on %s: 'espalier up' or 'espalier run' must be running on this machine as this user %s", nobody.Socket, whose)
	}
	if err != nil {
		return err
	}
	return printWatches(cmd.OutOrStdout(), all, flags.output)
}

// place is the socket to ask on, and of whom: with a socket that is named, it
// doesn't matter which cluster that works for.
func (f watchesFlags) place() (socket, whose string, err error) {
	if f.socket != "" {
		return f.socket, "with --introspection-socket " + f.socket, nil
	}
	config, err := f.where.config()
	if err != nil {
		return "", "", err
	}
	return introspect.SocketFor(config), "for the cluster at " + config.Host + ", and be the one that leads", nil
}

func printWatches(to io.Writer, all []introspect.Watch, output string) error {
	if output == "json" {
		document := json.NewEncoder(to)
		document.SetIndent("", "  ")
		document.SetEscapeHTML(false) // people read messages too
		return document.Encode(all)
	}
	_, err := io.WriteString(to, watchesText(all, widthOf(to)))
	return err
}
