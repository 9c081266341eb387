package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments is for commands without arguments. An argument of a group of commands is the name of one that does not
// exist.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("filename") != nil:
		return &usageError{fmt.Errorf("%s takes no arguments; name files with -f: -f %s", cmd.Name(), args[0])}
	case !cmd.HasSubCommands():
		return &usageError{fmt.Errorf("%s takes no arguments, not %q", cmd.Name(), args[0])}
	}
	unknown := fmt.Errorf("there is no command %q", cmd.CommandPath()+" "+args[0])
	cmd.SuggestionsMinimumDistance = misspelled
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 && len(args[0]) > misspelled {
		slices.Sort(similar)
		unknown = fmt.Errorf("%w; did you mean %s?", unknown, strings.Join(similar, " or "))
	}
	return &usageError{unknown}
}

// misspelled is in how many letters an argument may differ from the name of a command that is suggested.
const misspelled = 2
