package cli

import (
	"errors"
	"flag"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/providers/postgresql"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/serve"
)

// programs are the providers of this program.
var programs = map[string]func() serve.Program{
	"postgresql": func() serve.Program {
		return serve.Program{Name: "postgresql", Provider: func() (managed.Provider, error) { return postgresql.Provider(postgresql.Options{}), nil }}
	},
}

func newProviderRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run aws|postgresql [FLAGS]",
		Short: "Run a provider by itself, with a service account of its own",
		Long: "Runs the controllers of a provider's kinds, and nothing else; 'espalier run' then needs no\n" +
			"access to Secrets. Do not run it beside 'espalier run' with the flag of the same provider.\n" +
			"It has the flags of every provider that is a program of its own, and further ones;\n" +
			"'espalier provider run aws --help' lists them.",
		Example: "  espalier provider run postgresql --leader-election-namespace espalier-system\n" +
			"  espalier provider run aws --leader-elect=false",
		ValidArgs: []string{"aws", "postgresql"},
		// The flags are parsed by the provider.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
				return cmd.Help()
			}
			if len(args) == 0 {
				return &usageError{errors.New("provider run takes the name of a provider: aws or postgresql")}
			}
			if args[0] == "aws" {
				if err := requireAWS(); err != nil {
					return err
				}
			}
			provider, known := programs[args[0]]
			if !known {
				return &usageError{fmt.Errorf("there is no provider %s; there are aws and postgresql", args[0])}
			}
			err := serve.RunOf(cmd.Context(), provider(), args[1:], cmd.ErrOrStderr())
			switch {
			case errors.Is(err, flag.ErrHelp):
				return nil
			case errors.Is(err, serve.ErrUsage):
				return &codedError{code: exitUsage}
			}
			return err
		},
	}
}
