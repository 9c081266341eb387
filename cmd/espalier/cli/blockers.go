package cli

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/observe"
)

func newBlockers() *cobra.Command {
	var flags instanceFlags
	cmd := &cobra.Command{
		Use:   "blockers KIND NAME",
		Short: "Show what blocks the deletion of an instance, and what can be done",
		Long: "Shows the progress of the deletion of an instance and what blocks it, however deep\n" +
			"below: each object with the reason, since when, the instances that it belongs to,\n" +
			"and what can be done about it. It also shows objects that are no longer desired\n" +
			"and are not gone yet.\n\n" + kindNames + "\n\n" +
			"Exit codes:\n" +
			"  0  nothing is blocked: what is listed is in progress\n" +
			"  1  the object does not exist or cannot be read\n" +
			"  2  the arguments are invalid\n" +
			"  3  something is blocked",
		Example: "  espalier blockers vpcs.kro.run main -n prod\n" +
			"  espalier blockers vpc main -o json | jq '.blockers[].object'",
		Args: requireKindAndName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := parseKindAndName(cmd.Name(), args)
			if err != nil {
				return err
			}
			return blockers(cmd, flags, kind, name)
		},
	}
	cmd.ValidArgsFunction = flags.completeObjects
	flags.add(cmd)
	flags.cluster.addFrom(cmd)
	return cmd
}

func blockers(cmd *cobra.Command, flags instanceFlags, kind, name string) error {
	shown, state, err := flags.readTree(cmd.Context(), cmd.ErrOrStderr(), kind, name)
	if err != nil {
		return err
	}
	shown.printHolds(cmd.Context(), cmd.ErrOrStderr())
	now := time.Now()
	found := observe.FindBlockers(observe.Build(state, now))
	if err := flags.output.printText(cmd.OutOrStdout(), json.RawMessage(found.JSON()), found.Text(now, widthOf(cmd.OutOrStdout()))); err != nil {
		return err
	}
	if found.CountBlocking() > 0 || found.Remaining() != "" {
		return &codedError{code: exitBlocked}
	}
	return nil
}
