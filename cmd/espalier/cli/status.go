package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/doctor"
)

// statusFlags are the flags of status.
type statusFlags struct {
	cluster   clusterFlags
	namespace string
	output    outputFlag
}

func newStatus() *cobra.Command {
	var flags statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show everything in the cluster that is not ready, the worst first",
		Long: "Shows the definitions and compositions that are not served, and the instances that\n" +
			"are not ready or not gone, by definition: each with the cause from its status.\n" +
			"Graphs, and managed resources that no instance composes, follow by kind. Definitions that are not\n" +
			"served come first, then objects for which waiting does not help, which are marked\n" +
			"with !. What is ready is only counted.\n\n" +
			"It covers all namespaces, or the one of --namespace, as far as you are allowed to read.\n" +
			"For the way to a cause, and what to do about it, see 'espalier why'; for the installation\n" +
			"itself, see 'espalier doctor'.\n\n" +
			"Exit codes: 0 if everything is ready; 5 if something is not; 1 after a failure;\n" +
			"2 for invalid arguments.",
		Example: "  espalier status\n" +
			"  espalier status -n prod\n" +
			"  espalier status -o json | jq '.definitions[].unready[]? | select(.needsAction)'\n" +
			"  espalier status --from incident.tar.gz",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return clusterStatus(cmd, flags) },
	}
	flags.cluster.add(cmd)
	flags.cluster.addFrom(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "namespace of the objects; by default all")
	flags.output.add(cmd)
	return cmd
}

func clusterStatus(cmd *cobra.Command, flags statusFlags) error {
	config, err := flags.cluster.config()
	if err != nil {
		return err
	}
	printRecordNotes(cmd.ErrOrStderr(), flags.cluster.notes)
	config.WarningHandler = rest.NoWarnings{} // they are for the authors of objects
	state, managed, err := gatherInstances(cmd.Context(), config)
	if err != nil {
		return err
	}
	for _, u := range state.Unread {
		fmt.Fprintf(prose(cmd.ErrOrStderr()), "note: left out, because they cannot be read: %s: %s\n", u.What, observe.Printable(u.Why))
	}
	if len(state.Unread) > 0 && len(state.Definitions)+len(state.Instances)+len(managed) == 0 {
		return errors.New("nothing could be read of what the notes name")
	}
	now := time.Now()
	found := observe.Status(state.Definitions, doctor.NewestRevisions(state.Revisions), state.Instances, managed, flags.namespace, now)
	if err := flags.output.printText(cmd.OutOrStdout(), json.RawMessage(found.JSON()), found.Text(now, widthOf(cmd.OutOrStdout()))); err != nil {
		return err
	}
	if !found.IsReady() {
		return &codedError{code: exitNotReady}
	}
	return nil
}

// gatherInstances reads definitions, revisions of compositions, instances and managed resources, as doctor does.
func gatherInstances(ctx context.Context, config *rest.Config) (state doctor.State, managed []*unstructured.Unstructured, err error) {
	i, err := newInstallation(config)
	if err != nil {
		return doctor.State{}, nil, err
	}
	for _, read := range []func(context.Context){i.readCRDs, i.readRevisions, i.readDefinitions, i.readInstances} {
		if read(ctx); ctx.Err() != nil {
			return doctor.State{}, nil, context.Cause(ctx)
		}
	}
	for _, c := range i.managed {
		managed = append(managed, i.listKind(ctx, c)...)
	}
	return i.state, managed, context.Cause(ctx)
}
