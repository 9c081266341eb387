package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/observe"
)

// kindNames is what the calls' help says of KIND.
const kindNames = "KIND may be a kind, its plural or singular, a short name, and may end in .GROUP.\n" +
	"KIND NAME may be written as KIND/NAME."

// instanceFlags are which instance is meant, and how the answer is to look.
type instanceFlags struct {
	where     clusterFlags
	namespace string
	output    string
}

func (f *instanceFlags) add(cmd *cobra.Command) {
	f.where.add(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "the instance's namespace; by default that of the context")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "json, for programs")
}

// kindAndName are the arguments of calls that are about one instance.
func kindAndName(cmd *cobra.Command, args []string) error {
	_, name, err := named(cmd.Name(), args)
	if err == nil && name == "" {
		err = &usageError{fmt.Errorf("%s takes a kind and a name, as KIND NAME or KIND/NAME; there is no name", cmd.Name())}
	}
	return err
}

// named reads KIND NAME, KIND/NAME, or KIND alone, where the name is empty.
func named(call string, args []string) (kind, name string, err error) {
	switch len(args) {
	case 1:
		kind, name, slash := strings.Cut(args[0], "/")
		if kind == "" || slash && (name == "" || strings.Contains(name, "/")) {
			return "", "", &usageError{fmt.Errorf("%s takes a kind and a name, as KIND NAME or KIND/NAME, not %q", call, args[0])}
		}
		return kind, name, nil
	case 2:
		if args[0] == "" || args[1] == "" || strings.Contains(args[0], "/") || strings.Contains(args[1], "/") {
			return "", "", &usageError{fmt.Errorf("%s takes one kind and one name, as KIND NAME or KIND/NAME, not %q", call, args)}
		}
		return args[0], args[1], nil
	}
	return "", "", &usageError{fmt.Errorf("%s takes a kind and a name, not %d arguments", call, len(args))}
}

// instance is the one that a call is about, and where it is.
type instance struct {
	*follow.Cluster
	target follow.Target
}

// find finds out what is meant. It doesn't look whether it is there.
func (f *instanceFlags) find(kind, name string) (instance, error) {
	if f.output != "" && f.output != "json" {
		return instance{}, &usageError{fmt.Errorf("--output can be json, not %q", f.output)}
	}
	config, err := f.where.config()
	if err != nil {
		return instance{}, err
	}
	cluster, err := follow.New(config)
	if err != nil {
		return instance{}, err
	}
	manager.NewLogger(io.Discard, manager.LogText, 0) // what watches complain about would tear the screen
	namespace, err := f.namespaceOrDefault()
	if err != nil {
		return instance{}, err
	}
	target, err := cluster.Kinds.Target(kind, namespace, name)
	return instance{cluster, target}, err
}

// look finds out what is meant, and reads its tree once.
func (f *instanceFlags) look(ctx context.Context, kind, name string) (instance, observe.World, error) {
	shown, err := f.find(kind, name)
	if err != nil {
		return instance{}, observe.World{}, err
	}
	world, err := shown.Gather(ctx, shown.target)
	return shown, world, err
}

func (f *instanceFlags) namespaceOrDefault() (string, error) {
	if f.namespace != "" {
		return f.namespace, nil
	}
	namespace, _, err := f.where.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("which namespace? %w", err)
	}
	return namespace, nil
}

// watch follows the instance's tree for as long as show shows it. Where the tree
// can't be followed any further, the context that show gets ends.
func (i instance) watch(ctx context.Context, show func(ctx context.Context, worlds <-chan observe.World) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	worlds, ended := make(chan observe.World), make(chan error, 1)
	go func() {
		err := i.Follow(ctx, i.target, worlds)
		if err != nil {
			stop(err)
		}
		ended <- err
	}()
	err := show(ctx, worlds)
	stop(nil)
	if followed := <-ended; err == nil {
		err = followed
	}
	return err
}

// eachWorld calls what for each world, until one that is gone.
func eachWorld(ctx context.Context, worlds <-chan observe.World, what func(observe.World) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case w := <-worlds:
			if err := what(w); err != nil || w.Gone() {
				return err
			}
		}
	}
}
