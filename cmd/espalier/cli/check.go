package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// checkRun prints which CustomResourceDefinitions the controllers would install. It fails if something prevents that, because they would
// not start then.
func checkRun(cmd *cobra.Command, options server.ManagerOptions) error {
	found, err := server.Check(cmd.Context(), options)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), checkText(found, widthOf(cmd.OutOrStdout()))); err != nil {
		return err
	}
	if found.Refused != nil {
		return fmt.Errorf("the controllers would not start: %w", found.Refused)
	}
	return nil
}

// checkText formats findings for a terminal of the given width; a width of 0 means no limit.
func checkText(found server.Findings, width int) string {
	table := [][]string{{"ACTION", "CUSTOMRESOURCEDEFINITION", "DETAIL"}}
	for _, s := range found.Installs {
		table = append(table, []string{string(s.Action), s.Wanted.GetName(), observe.Printable(installDetail(s))})
	}
	text := ""
	for _, note := range found.Notes {
		text += "note: " + note + ".\n"
	}
	if found.Refused == nil {
		text += "Nothing prevents the installation of these CustomResourceDefinitions. Permissions, ports and certificates were not checked. Nothing was changed.\n"
	}
	return observe.WrapTable(table, width) + diag.WrapLines(text, width)
}

// installDetail is what there is to say of a CustomResourceDefinition: what is missing in one that
// another program has installed, say.
func installDetail(s install.Step) string {
	switch s.Action {
	case install.Refused:
		return s.Problem
	case install.KeepNewer:
		return "installed by a newer release"
	case install.KeepForeign, install.Replace:
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
	if len(s.UnknownFields) > 0 {
		detail += "; it is not replaced, because Espalier does not know these of its fields: " + strings.Join(s.UnknownFields, ", ")
	}
	if s.Action == install.Replace {
		detail += "; it is replaced, and 'espalier takeover --back-to kro' restores it"
	}
	return detail
}
