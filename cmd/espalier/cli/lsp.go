package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/cmd/espalier/lsp"
	"github.com/espalier-dev/espalier/internal/authoring/language"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/graph"
)

func newLSP() *cobra.Command {
	var kinds []string
	var secretOutputs string
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Run the language server, for editors",
		Long: "Speaks the Language Server Protocol 3.17 over standard input and output; an editor starts it.\n\n" +
			"It reports what 'espalier validate' reports, while a file is written and before it is saved, and\n" +
			"knows the names in expressions and the fields of kinds: it completes them, explains them with\n" +
			"their types, and finds where they are defined, in all files of the folder that is open.\n\n" +
			"It reads .yaml, .yml and .json files of that folder, and needs no cluster.\n\n" +
			"Exit codes: 0 if the editor has shut the server down, 1 otherwise, 2 for invalid arguments.",
		Example: "  espalier lsp\n  espalier lsp --kinds crds/",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rule, err := graph.ParseSecretOutputs(secretOutputs)
			if err != nil {
				return &usageError{err}
			}
			files, err := readFiles(cmd, kinds)
			if err != nil {
				return err
			}
			return lsp.Serve(cmd.Context(), stdio{cmd.InOrStdin(), cmd.OutOrStdout()}, lsp.Options{
				Version: Version(), Log: cmd.ErrOrStderr(),
				Language: language.Options{
					Workspace: workspace.Options{Version: Version(), SecretOutputs: rule}, Kinds: workspace.New(files, workspace.Options{}).Lookup,
				},
			})
		},
	}
	cmd.Flags().StringSliceVar(&kinds, "kinds", nil, "file or directory with definitions of further kinds; repeatable")
	cmd.Flags().StringVar(&secretOutputs, "secret-outputs", string(graph.RefuseSecretOutputs),
		"policy for definitions with Secret data in outputs: Refuse or Warn")
	return cmd
}

// stdio is the connection over standard input and output.
type stdio struct {
	io.Reader
	io.Writer
}

// Close closes what can be closed, so that no message is read any more.
func (s stdio) Close() error {
	var problems []error
	for _, end := range []any{s.Reader, s.Writer} {
		if c, ok := end.(io.Closer); ok {
			problems = append(problems, c.Close())
		}
	}
	return errors.Join(problems...)
}
