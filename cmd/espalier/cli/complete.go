package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/observe/reader"
)

const (
	// completionTime is how long a shell waits for the cluster.
	completionTime = 3 * time.Second
	// maxCompletions bounds the names that a shell is offered.
	maxCompletions = 500
)

// completeObjects completes KIND and NAME, or KIND/NAME, from the cluster. What fails completes nothing: a
// shell has no place for messages.
func (f *instanceFlags) completeObjects(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	config, err := f.cluster.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	config.Timeout = completionTime
	cluster, err := reader.New(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, name, slash := strings.Cut(typed, "/")
	switch {
	case len(args) == 0 && !slash:
		return startingWith(plurals(cluster), typed), cobra.ShellCompDirectiveNoFileComp
	case len(args) == 0:
		names := startingWith(f.objectNames(ctx, cluster, kind), name)
		for i := range names {
			names[i] = kind + "/" + names[i]
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		return startingWith(f.objectNames(ctx, cluster, args[0]), typed), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// plurals are the plurals of the kinds that can be listed and watched, as far as they can be discovered.
func plurals(cluster *reader.Cluster) (out []string) {
	served, _ := cluster.Kinds.Served("list", "watch") // as far as it got
	for _, r := range served {
		out = append(out, r.Name)
	}
	return out
}

// objectNames are the names of a kind's objects in the namespace; none if they cannot be listed.
func (f *instanceFlags) objectNames(ctx context.Context, cluster *reader.Cluster, kind string) []string {
	namespace, err := f.namespaceOrDefault()
	if err != nil {
		return nil
	}
	target, err := cluster.Kinds.Target(kind, namespace, "")
	if err != nil {
		return nil
	}
	list, err := cluster.ResourceClient(target).List(ctx, metav1.ListOptions{Limit: maxCompletions})
	if err != nil {
		return nil
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].GetName()
	}
	return names
}

func startingWith(all []string, typed string) []string {
	out := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) })
	slices.Sort(out)
	return slices.Compact(out)
}
