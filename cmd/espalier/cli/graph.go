package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/object/diagram"
)

// graphFlags are the flags of graph.
type graphFlags struct {
	files, kinds []string
	output       string
}

// drawings are the output formats of graph.
var drawings = map[string]func(diagram.Diagram) string{
	"dot": diagram.Diagram.Dot, "mermaid": diagram.Diagram.Mermaid, "svg": diagram.Diagram.SVG,
}

func newGraph() *cobra.Command {
	var flags graphFlags
	cmd := &cobra.Command{
		Use:   "graph -f FILE... [NAME]",
		Short: "Draw the graph of a definition or a composition, without a cluster",
		Long: "Draws what a definition consists of: its nodes, and an edge from each to those that read it;\n" +
			"of a composition, the steps of its pipeline and the resources of built-in functions.\n" +
			"With several definitions in the files, NAME selects one.\n\n" +
			"Formats: mermaid, which GitHub and GitLab draw in Markdown; dot for Graphviz; and svg, a\n" +
			"picture that loads nothing and follows the light or dark scheme of the viewer.\n\n" +
			"Exit codes: 0 after success, 1 if a definition does not compile, 2 for invalid arguments.",
		Example: "  espalier graph -f webapp.yaml\n" +
			"  espalier graph -f platform/ webapp -o svg > webapp.svg\n" +
			"  espalier graph -f webapp.yaml --kinds crds/ -o dot | dot -Tpng > webapp.png",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{fmt.Errorf("graph takes one name, not %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return drawGraph(cmd, flags, strings.Join(args, "")) },
	}
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil, "file or directory, or - for the standard input; repeatable")
	cmd.Flags().StringSliceVar(&flags.kinds, "kinds", nil, "file or directory with definitions of further kinds; repeatable")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "mermaid", "mermaid, dot or svg")
	return cmd
}

func drawGraph(cmd *cobra.Command, flags graphFlags, name string) error {
	draw := drawings[flags.output]
	switch {
	case len(flags.files) == 0:
		return &usageError{errors.New("graph takes files: -f FILE")}
	case draw == nil:
		return &usageError{fmt.Errorf("--output can be mermaid, dot or svg, not %q", flags.output)}
	}
	files, err := readFiles(cmd, flags.files)
	if err != nil {
		return err
	}
	kinds, err := readFiles(cmd, flags.kinds)
	if err != nil {
		return err
	}
	w := workspace.New(files, workspace.Options{Version: Version(), Kinds: workspace.New(kinds, workspace.Options{}).Lookup})
	drawn := w.Diagrams()
	if name != "" {
		drawn = slices.DeleteFunc(drawn, func(d workspace.Diagram) bool { return d.Document.Object.GetName() != name })
	}
	switch len(drawn) {
	case 1:
		_, err := io.WriteString(cmd.OutOrStdout(), draw(drawn[0].Diagram))
		return err
	case 0:
		return noDiagram(w, name)
	}
	if name != "" {
		return &usageError{fmt.Errorf("several files define %s; name fewer files: %s", name,
			listed(drawn, func(d workspace.Diagram) string { return d.Document.File.Name }))}
	}
	return &usageError{errors.New("the files have several definitions; name one of them: " + listed(drawn,
		func(d workspace.Diagram) string { return d.Document.Object.GetName() }))}
}

// noDiagram says why nothing is drawn: there is no definition, or it does not compile.
func noDiagram(w *workspace.Workspace, name string) error {
	problems := errorsIn(w)
	what := "there is no definition or composition"
	if name != "" {
		what += " named " + name
	}
	if len(problems) == 0 {
		return errors.New(what + " in the files")
	}
	return errors.New(what + " that compiles:\n" + strings.Join(problems, "\n"))
}

// listed returns texts about diagrams, sorted and each once.
func listed(drawn []workspace.Diagram, text func(workspace.Diagram) string) string {
	all := make([]string, len(drawn))
	for i, d := range drawn {
		all[i] = text(d)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// errorsIn are the errors in files, without the warnings.
func errorsIn(w *workspace.Workspace) (out []string) {
	for _, f := range w.Findings() {
		if f.Severity == workspace.Error {
			out = append(out, f.String())
		}
	}
	return out
}
