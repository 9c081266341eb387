package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/observe"
)

func newWhy() *cobra.Command {
	var flags instanceFlags
	cmd := &cobra.Command{
		Use:   "why KIND NAME",
		Short: "Explain why an object is not ready, or not gone",
		Long: "Names the deepest cause in one sentence; then the chain from the object down to it, with since\n" +
			"when, how often it was tried and when next; and what to do. Further causes that do not follow\n" +
			"from it come after that, and nodes that are left out, with the conditions.\n\n" +
			"It explains instances, definitions with all their instances, and managed resources.\n\n" + kindNames + "\n\n" +
			"Exit codes: 0 if the object is ready, 5 if it is not, 1 after a failure, 2 for invalid\n" +
			"arguments.",
		Example: "  espalier why eksclusterwithvpc demo\n" +
			"  espalier why webapp/shop -n prod -o json\n" +
			"  espalier why rgd vpc",
		Args: requireKindAndName,
		RunE: func(cmd *cobra.Command, args []string) error { return why(cmd, flags, args) },
	}
	flags.cluster.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "the object's namespace; by default that of the context")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "output format: json or yaml")
	return cmd
}

func why(cmd *cobra.Command, flags instanceFlags, args []string) error {
	kind, name, err := parseKindAndName(cmd.Name(), args)
	if err != nil {
		return err
	}
	asYAML := flags.output == "yaml"
	switch flags.output {
	case "yaml":
		flags.output = "json"
	case "", "json":
	default:
		return &usageError{fmt.Errorf("--output can be json or yaml, not %q", flags.output)}
	}
	shown, state, err := flags.readTree(cmd.Context(), kind, name)
	if err != nil {
		return err
	}
	if state.Gone() {
		return fmt.Errorf("%s not found", shown.target)
	}
	now := time.Now()
	explained := observe.Explain(observe.Build(state, now), now)
	text := explained.JSON()
	switch {
	case asYAML:
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	case flags.output == "":
		shown.printHolds(cmd.Context(), cmd.ErrOrStderr())
		text = []byte(explained.Text(now, widthOf(cmd.OutOrStdout())))
	}
	if _, err := cmd.OutOrStdout().Write(text); err != nil {
		return err
	}
	if !explained.IsReady() {
		return &codedError{code: exitNotReady}
	}
	return nil
}
