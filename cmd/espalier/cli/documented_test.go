package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// documented is a command that a page or a help text shows.
type documented struct {
	where string
	// text is the command as it is shown, without the name of the program, pipes and redirections.
	text string
	args []string
	// output is what the page shows that it prints; empty if it shows nothing, or what another program makes of it.
	output string
}

var (
	fence        = regexp.MustCompile("(?ms)^[ \t]*```[a-z]*\n(.*?)^[ \t]*```")
	shownCommand = regexp.MustCompile(`(?m)^[ \t]*(\$ )?(?:bin/|kubectl )?espalier ([a-z].*)$`)
	shellPrompt  = regexp.MustCompile(`(?m)^[ \t]*\$ `)
	inComment    = regexp.MustCompile(`\s#.*$`)
	endOfCommand = regexp.MustCompile(`\s[|>&].*$`)
)

// commandsIn are the commands in a text. After a prompt, what follows a command is its output.
func commandsIn(where, text string) []documented {
	var out []documented
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, at := range shownCommand.FindAllStringSubmatchIndex(text, -1) {
		line := inComment.ReplaceAllString(text[at[4]:at[5]], "")
		command := endOfCommand.ReplaceAllString(line, "")
		d := documented{where: where, text: strings.Join(strings.Fields(command), " ")}
		d.args = shellWords(d.text)
		if prompted := at[2] >= 0; prompted && command == line {
			d.output = strings.TrimPrefix(text[at[1]:], "\n")
			if next := shellPrompt.FindStringIndex(d.output); next != nil {
				d.output = d.output[:next[0]]
			}
		}
		out = append(out, d)
	}
	return out
}

// shellWords are the words of a command, as a shell splits it at spaces and removes quotes.
func shellWords(command string) (words []string) {
	var word strings.Builder
	var quote rune
	for _, r := range command + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ' ':
			words = append(words, word.String())
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return words
}

// documentedCommands are the commands of the README, of the pages and of the examples in help texts.
func documentedCommands(t *testing.T) []documented {
	t.Helper()
	var out []documented
	for _, pattern := range []string{"README*.md", "docs/*.md", "docs/reference/*.md"} {
		pages, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
				out = append(out, commandsIn(filepath.Base(page), block[1])...)
			}
		}
	}
	for _, cmd := range allCommands(newRoot()) {
		out = append(out, commandsIn("help of "+cmd.CommandPath(), cmd.Example)...)
	}
	return out
}

// TestDocumentedCommandsAreAccepted parses every command that is documented: it and its flags exist, and it takes the arguments.
func TestDocumentedCommandsAreAccepted(t *testing.T) {
	t.Parallel()
	all := documentedCommands(t)
	shown := map[string]bool{}
	for _, d := range all {
		cmd, err := parsed(d.args)
		if err != nil {
			t.Errorf("%s: espalier %s: %v", d.where, d.text, err)
			continue
		}
		shown[cmd.CommandPath()] = true
	}
	for _, cmd := range allCommands(newRoot()) {
		if cmd.Runnable() && !cmd.Hidden && cmd.HasParent() && !cmd.HasSubCommands() && !shown[cmd.CommandPath()] {
			t.Errorf("no page and no help text shows %s", cmd.CommandPath())
		}
	}
	if len(all) < 150 {
		t.Errorf("only %d commands are documented", len(all))
	}
}

// TestTheReferenceHasEveryCommand looks for each command of the program in the table of the reference.
func TestTheReferenceHasEveryCommand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newRoot().Commands() {
		if row := "\n| `espalier " + cmd.Name(); !cmd.Hidden && cmd.Name() != "completion" && cmd.Name() != "help" &&
			!strings.Contains(string(page), row+" ") && !strings.Contains(string(page), row+"`") {
			t.Errorf("docs/reference/commands.md has no row for espalier %s", cmd.Name())
		}
	}
}

// parsed finds the command of arguments and parses its flags, without running it.
func parsed(args []string) (*cobra.Command, error) {
	cmd, rest, err := newRoot().Find(args)
	switch {
	case err != nil:
		return nil, err
	case !cmd.Runnable():
		return nil, fmt.Errorf("%s needs a command below it", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return nil, err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return nil, err
	}
	return cmd, cmd.ValidateArgs(cmd.Flags().Args())
}
