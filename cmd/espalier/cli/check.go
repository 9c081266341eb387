package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// checkRun prints what the controllers would install. It fails if they would not start.
func checkRun(cmd *cobra.Command, options server.ManagerOptions) error {
	found, err := server.Check(cmd.Context(), options)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), checkText(found)); err != nil {
		return err
	}
	if found.Refused != nil {
		return fmt.Errorf("the controllers would not start: %w", found.Refused)
	}
	return nil
}

// checkText formats findings.
func checkText(found server.Findings) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACTION\tCUSTOMRESOURCEDEFINITION\tDETAIL")
	for _, s := range found.Installs {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Action, s.Wanted.GetName(), observe.Printable(installDetail(s)))
	}
	_ = w.Flush() // a strings.Builder never fails
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n") // removes the padding at the ends of lines
	}
	for _, note := range found.Notes {
		out.WriteString("note: " + note + ".\n")
	}
	if found.Refused == nil {
		out.WriteString("The controllers would start. Nothing was changed.\n")
	}
	return out.String()
}

// installDetail is what is missing in a CustomResourceDefinition that another program has
// installed.
func installDetail(s install.Step) string {
	switch s.Action {
	case install.Refused:
		return s.Problem
	case install.KeepForeign:
	case install.Create, install.Update, install.Unchanged:
		return ""
	}
	detail := "installed by another program"
	if len(s.MissingVersions) > 0 {
		detail += "; objects of " + strings.Join(s.MissingVersions, ", ") + " are refused"
	}
	if len(s.MissingFields) > 0 {
		detail += "; dropped fields: " + strings.Join(s.MissingFields, ", ")
	}
	return detail
}
