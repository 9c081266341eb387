package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/observe"
)

// validateFlags are the flags of validate.
type validateFlags struct {
	files, kinds  []string
	output        outputFlag
	strict        bool
	secretOutputs string
}

func newValidate() *cobra.Command {
	var flags validateFlags
	cmd := &cobra.Command{
		Use:   "validate -f FILE...",
		Short: "Check definitions, compositions and their instances, without a cluster",
		Long: "Checks files as the controllers and the API server would: expressions and their types,\n" +
			"names, schemas, the inputs of built-in functions, and the fields of every object.\n" +
			"All problems are printed, each with file, line and column.\n\n" +
			"It knows the kinds of Kubernetes, of Espalier, and of the CustomResourceDefinitions and\n" +
			"definitions in the files and in --kinds; the files of --kinds are not checked themselves.\n" +
			"What uses other kinds is not checked, with a warning.\n\n" +
			"Exit codes: 0 if there are no errors, 1 if there are some, 2 for invalid arguments.\n" +
			"With --strict, warnings count as errors.",
		Example: "  espalier validate -f platform/\n" +
			"  espalier validate -f webapp.yaml --kinds crds/ -o json\n" +
			"  kubectl kustomize . | espalier validate -f -",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return validate(cmd, flags) },
	}
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil, "file or directory to check, or - for the standard input; repeatable")
	cmd.Flags().StringSliceVar(&flags.kinds, "kinds", nil, "file or directory with definitions of further kinds; repeatable")
	flags.output.add(cmd)
	cmd.Flags().BoolVar(&flags.strict, "strict", false, "fail on warnings as well")
	cmd.Flags().StringVar(&flags.secretOutputs, "secret-outputs", string(graph.RefuseSecretOutputs),
		"policy for definitions with Secret data in outputs: Refuse or Warn")
	return cmd
}

func validate(cmd *cobra.Command, flags validateFlags) error {
	if len(flags.files) == 0 {
		return &usageError{errors.New("validate takes files: -f FILE")}
	}
	rule, err := graph.ParseSecretOutputs(flags.secretOutputs)
	if err != nil {
		return &usageError{err}
	}
	files, err := readFiles(cmd, flags.files)
	if err != nil {
		return err
	}
	kinds, err := readFiles(cmd, flags.kinds)
	if err != nil {
		return err
	}
	w := workspace.New(files, workspace.Options{Version: Version(), SecretOutputs: rule, Kinds: workspace.New(kinds, workspace.Options{}).Lookup})
	if err := printFindings(cmd.OutOrStdout(), w.Findings(), flags.output); err != nil {
		return err
	}
	var failed, warned int
	for _, f := range w.Findings() {
		if f.Severity == workspace.Error {
			failed++
		} else {
			warned++
		}
	}
	summary := fmt.Sprintf("%s and %s in %s", diag.Counted(failed, "error", "errors"), diag.Counted(warned, "warning", "warnings"),
		diag.Counted(len(files), "file", "files"))
	if failed > 0 || flags.strict && warned > 0 {
		return errors.New(summary)
	}
	fmt.Fprintln(prose(cmd.ErrOrStderr()), summary)
	return nil
}

// printedFinding is a finding in JSON and YAML.
type printedFinding struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndLine   int    `json:"endLine"`
	EndColumn int    `json:"endColumn"`
	Severity  string `json:"severity"`
	Path      string `json:"path,omitempty"`
	Message   string `json:"message"`
}

func printFindings(out io.Writer, findings []workspace.Finding, format outputFlag) error {
	printed := make([]printedFinding, len(findings))
	for i, f := range findings {
		printed[i] = printedFinding{
			File: f.File, Line: f.Range.Start.Line, Column: f.Range.Start.Column, EndLine: f.Range.End.Line, EndColumn: f.Range.End.Column,
			Severity: string(f.Severity), Path: string(f.Path), Message: f.Message,
		}
	}
	return format.print(out, printed, func() error {
		for _, f := range findings {
			if _, err := fmt.Fprintln(prose(out), observe.Printable(f.String())); err != nil {
				return err
			}
		}
		return nil
	})
}
