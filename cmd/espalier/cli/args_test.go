package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestUnexpectedArguments covers every command without arguments and what is no command: all are invalid usage, and say
// whose help to read.
func TestUnexpectedArguments(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			check(c)
		}
		if cmd.Args == nil || cmd.Args(cmd, nil) != nil || cmd.Args(cmd, []string{"surplus"}) == nil {
			return // it takes arguments
		}
		path := strings.Fields(cmd.CommandPath())
		want := `espalier: ` + cmd.Name() + ` takes no arguments, not "surplus"`
		switch {
		case cmd.Flags().Lookup("filename") != nil:
			want = `espalier: ` + cmd.Name() + ` takes no arguments; name files with -f: -f surplus`
		case cmd.HasSubCommands():
			want = `espalier: there is no command "` + cmd.CommandPath() + ` surplus"`
		}
		want += "\nRun '" + cmd.CommandPath() + " --help' for usage.\n"
		if code, out, errs := call(t.Context(), append(path[1:], "surplus")...); code != exitUsage || out != "" || errs != want {
			t.Errorf("%s: exit code %d, output %q, errors %q; want %q", cmd.CommandPath(), code, out, errs, want)
		}
	}
	check(newRoot())
}

func TestMisspelledCommands(t *testing.T) {
	for want, args := range map[string][]string{
		`there is no command "espalier validat"; did you mean validate?`:     {"validat"},
		`there is no command "espalier x"` + "\n":                            {"x"},
		`there is no command "espalier aws actvate"; did you mean activate?`: {"aws", "actvate"},
	} {
		if code, _, errs := call(t.Context(), args...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, errors %q; want %q", code, errs, want)
		}
	}
}
