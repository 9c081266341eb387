package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// kindNames is the help on KIND and NAME.
const kindNames = "KIND may be a kind, its plural or singular, a short name, and may end in .GROUP.\n" +
	"KIND NAME may be written as KIND/NAME."

// instanceFlags select an instance and the output format.
type instanceFlags struct {
	cluster   clusterFlags
	namespace string
	output    outputFlag
}

func (f *instanceFlags) add(cmd *cobra.Command) {
	f.cluster.add(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "the instance's namespace; by default the context's")
	f.output.add(cmd)
}

// requireKindAndName checks the arguments of commands for one instance.
func requireKindAndName(cmd *cobra.Command, args []string) error {
	_, name, err := parseKindAndName(cmd.Name(), args)
	if err == nil && name == "" {
		err = &usageError{fmt.Errorf("%s takes a kind and a name, as KIND NAME or KIND/NAME; the name is missing", cmd.Name())}
	}
	return err
}

// parseKindAndName parses KIND NAME, KIND/NAME, or KIND alone: then the name is empty.
func parseKindAndName(command string, args []string) (kind, name string, err error) {
	switch len(args) {
	case 1:
		kind, name, slash := strings.Cut(args[0], "/")
		if kind == "" || slash && (name == "" || strings.Contains(name, "/")) {
			return "", "", &usageError{fmt.Errorf("%s takes a kind and a name, as KIND NAME or KIND/NAME, not %q", command, args[0])}
		}
		return kind, name, nil
	case 2:
		if args[0] == "" || args[1] == "" || strings.Contains(args[0], "/") || strings.Contains(args[1], "/") {
			return "", "", &usageError{fmt.Errorf("%s takes one kind and one name, as KIND NAME or KIND/NAME, not %q", command, args)}
		}
		return args[0], args[1], nil
	}
	return "", "", &usageError{fmt.Errorf("%s takes a kind and a name, not %d arguments", command, len(args))}
}

// instance is the instance of a command, and its cluster.
type instance struct {
	*reader.Cluster
	target reader.Target
}

// find resolves the kind, and notes if it may be another one too. It does not check whether the instance exists.
func (f *instanceFlags) find(ctx context.Context, notes io.Writer, kind, name string) (instance, error) {
	config, err := f.cluster.config()
	if err != nil {
		return instance{}, err
	}
	printRecordNotes(notes, f.cluster.notes)
	config.WarningHandler = rest.NoWarnings{} // they are for the authors of objects
	cluster, err := reader.New(config)
	if err != nil {
		return instance{}, err
	}
	namespace, err := f.namespaceOrDefault()
	if err != nil {
		return instance{}, err
	}
	target, err := cluster.Kinds.Target(kind, namespace, name)
	if unknown := (*reader.UnknownKindError)(nil); errors.As(err, &unknown) {
		err = instance{Cluster: cluster}.explainUnknownKind(ctx, unknown)
	}
	if len(target.Alternatives) > 0 {
		fmt.Fprintf(prose(notes), "note: %s is taken for %s; it could also be %s\n", kind, target.Mapping.GroupVersionKind.GroupKind(),
			strings.Join(target.Alternatives, ", "))
	}
	return instance{cluster, target}, err
}

// readTree resolves the kind and reads the tree once. It notes what may not be read of it.
func (f *instanceFlags) readTree(ctx context.Context, notes io.Writer, kind, name string) (instance, observe.ClusterState, error) {
	shown, err := f.find(ctx, notes, kind, name)
	if err != nil {
		return instance{}, observe.ClusterState{}, err
	}
	state, err := follow.Gather(ctx, shown.Cluster, shown.target)
	printUnreadable(notes, state)
	return shown, state, err
}

func (f *instanceFlags) namespaceOrDefault() (string, error) {
	return f.cluster.namespaceOr(f.namespace)
}

// watch follows the instance's tree while show runs. If following it fails, the context of show
// ends with the error as its cause.
func (i instance) watch(ctx context.Context, show func(ctx context.Context, states <-chan observe.ClusterState) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	states, ended := make(chan observe.ClusterState), make(chan error, 1)
	go func() {
		err := follow.Follow(ctx, i.Cluster, i.target, states)
		if err != nil {
			stop(err)
		}
		ended <- err
	}()
	err := show(ctx, states)
	stop(nil)
	if followed := <-ended; err == nil {
		err = followed
	}
	return err
}

// forEachState calls handle for each state, until one whose root is gone.
func forEachState(ctx context.Context, states <-chan observe.ClusterState, handle func(observe.ClusterState) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case w := <-states:
			if err := handle(w); err != nil || w.Gone() {
				return err
			}
		}
	}
}
