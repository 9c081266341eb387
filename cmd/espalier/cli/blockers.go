package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/observe"
)

func newBlockers() *cobra.Command {
	var flags instanceFlags
	cmd := &cobra.Command{
		Use:   "blockers KIND NAME",
		Short: "Show what holds up the deletion of an instance, and what can be done",
		Long: "Shows how far the deletion of an instance is and what holds it up, however deep\n" +
			"below: each object with the reason, since when, the instances that it is part of,\n" +
			"and what can be done about it. It also tells of objects that nothing in the\n" +
			"instance wants any more and that aren't gone yet.\n\n" + kindNames + "\n\n" +
			"Exit codes:\n" +
			"  0  nothing holds anything up\n" +
			"  1  it could not be looked at, or there is no such object\n" +
			"  2  the call can't be meant\n" +
			"  3  something holds something up",
		Example: "  espalier blockers vpcs.kro.run main -n prod\n" +
			"  espalier blockers vpc main -o json | jq '.blockers[].object'",
		Args: kindAndName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := named(cmd.Name(), args)
			if err != nil {
				return err
			}
			return blockers(cmd, flags, kind, name)
		},
	}
	flags.add(cmd)
	return cmd
}

func blockers(cmd *cobra.Command, flags instanceFlags, kind, name string) error {
	shown, world, err := flags.look(cmd.Context(), kind, name)
	if err != nil {
		return err
	}
	shown.tellHolds(cmd.Context(), cmd.ErrOrStderr())
	now := time.Now()
	found := observe.HoldupOf(observe.Build(world, now))
	text := found.Text(now)
	if flags.output == "json" {
		text = string(found.JSON())
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
		return err
	}
	if len(found.Blockers) > 0 {
		return &codedError{code: exitBlocked}
	}
	return nil
}
