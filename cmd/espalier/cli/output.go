package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// outputFlag is the format in which a command prints data.
type outputFlag string

// The formats. A table is for people, and may change; of the others, fields may be added, and no field changes its meaning or
// disappears.
const (
	tableOutput    outputFlag = "table"
	jsonOutput     outputFlag = "json"
	yamlOutput     outputFlag = "yaml"
	markdownOutput outputFlag = "markdown"
)

// add adds the flag, with further formats beside table, json and yaml.
func (o *outputFlag) add(cmd *cobra.Command, further ...outputFlag) {
	*o = tableOutput
	formats := []string{string(tableOutput), string(jsonOutput), string(yamlOutput)}
	for _, f := range further {
		formats = append(formats, string(f))
	}
	completions := make([]cobra.Completion, len(formats))
	copy(completions, formats)
	last := len(formats) - 1
	cmd.Flags().VarP(&outputValue{o, formats}, "output", "o", "output format: "+strings.Join(formats[:last], ", ")+" or "+formats[last])
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(completions, cobra.ShellCompDirectiveNoFileComp))
}

// outputValue sets an outputFlag to one of some formats.
type outputValue struct {
	to      *outputFlag
	formats []string
}

// Set implements pflag.Value.
func (v *outputValue) Set(text string) error {
	if !slices.Contains(v.formats, text) {
		return fmt.Errorf("must be one of %s", strings.Join(v.formats, ", "))
	}
	*v.to = outputFlag(text)
	return nil
}

// String implements pflag.Value.
func (v *outputValue) String() string { return string(*v.to) }

// Type implements pflag.Value.
func (v *outputValue) Type() string { return "format" }

// print writes data in the format, or calls table.
func (o outputFlag) print(to io.Writer, data any, table func() error) error {
	switch o {
	case jsonOutput:
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false) // people read messages too
		return encoder.Encode(data)
	case yamlOutput:
		text, err := yaml.Marshal(data)
		if err == nil {
			_, err = to.Write(text)
		}
		return err
	case tableOutput, markdownOutput:
	}
	return table()
}

// printText is print with a text for people.
func (o outputFlag) printText(to io.Writer, data any, text string) error {
	return o.print(to, data, func() error {
		_, err := io.WriteString(to, text)
		return err
	})
}

// documents prints values one after the other, and no value twice in a row: as JSON, each on one line, or as documents of YAML.
type documents struct {
	to     io.Writer
	format outputFlag
	last   []byte
}

func (d *documents) write(v any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // people read messages too
	if err := encoder.Encode(v); err != nil || bytes.Equal(text.Bytes(), d.last) {
		return err
	}
	d.last = bytes.Clone(text.Bytes())
	if d.format == yamlOutput {
		raw, err := yaml.JSONToYAML(d.last)
		if err != nil {
			return err
		}
		text.Reset()
		text.WriteString("---\n")
		text.Write(raw)
	}
	_, err := d.to.Write(text.Bytes())
	return err
}
