package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/diag"
)

// maxHelpWidth is how wide help is at most, also where it is not printed on a terminal: longer lines are hard to read.
const maxHelpWidth = 80

// fitHelp wraps the help of a command and of those below it to the terminal that it is printed on.
func fitHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		to := cmd.OutOrStdout()
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(to)
		width := widthOf(to)
		if width == 0 || width > maxHelpWidth {
			width = maxHelpWidth
		}
		fmt.Fprint(to, wrapHelp(text.String(), width))
	})
}

// described matches a flag, a command or an exit code in help, with what it means.
var described = regexp.MustCompile(`^( +\S.*? {2,})(\S.*)$`)

// wrapHelp wraps help to a width: paragraphs with a line that is longer are filled, what flags and commands mean is wrapped in
// its column, and commands in examples stay as they are.
func wrapHelp(text string, width int) string {
	if fits(text, width) {
		return text
	}
	var b strings.Builder
	var paragraph []string
	flush := func() {
		lines := strings.Join(paragraph, "\n") + "\n"
		switch {
		case len(paragraph) == 0:
		case fits(lines, width):
			b.WriteString(lines)
		default:
			diag.WrapHanging(&b, "", strings.Fields(lines), width)
		}
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line != "" && !strings.HasPrefix(line, " ") {
			paragraph = append(paragraph, line)
			continue
		}
		flush()
		parts := described.FindStringSubmatch(line)
		switch {
		case fits(line, width) || parts == nil:
			b.WriteString(line + "\n")
		case utf8.RuneCountInString(parts[1]) <= width/2:
			diag.WrapHanging(&b, parts[1], strings.Fields(parts[2]), width)
		default:
			b.WriteString(strings.TrimRight(parts[1], " ") + "\n")
			diag.WrapHanging(&b, "            ", strings.Fields(parts[2]), width)
		}
	}
	flush()
	return b.String()
}
