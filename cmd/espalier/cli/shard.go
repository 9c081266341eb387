package cli

import (
	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/kube/shard"
)

// shardFlags select the objects that an installation works on.
type shardFlags struct {
	namespaces []string
	labels     string
}

func (f *shardFlags) add(cmd *cobra.Command, prefix string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.namespaces, shard.NamespacesFlag, nil,
		prefix+"work only in these namespaces, or with !NAMESPACE in all but these; cluster-scoped objects belong to the installation that leaves namespaces out")
	flags.StringVar(&f.labels, shard.LabelsFlag, "", prefix+"work only on definitions, with all that they serve, and managed resources whose labels match")
}

func (f *shardFlags) selector() (shard.Selector, error) {
	selected, err := shard.Parse(f.namespaces, f.labels)
	if err != nil {
		return selected, &usageError{err}
	}
	return selected, nil
}
