package cli

import (
	"strings"

	"github.com/espalier-dev/espalier/internal/program/server"
)

// dialectFlag is a list of dialects, separated by commas.
type dialectFlag struct{ all []server.Dialect }

// Set implements pflag.Value. A second list is added to the first.
func (f *dialectFlag) Set(text string) error {
	dialects, err := server.ParseDialects(strings.Split(text, ","))
	f.all = append(f.all, dialects...)
	return err
}

// String implements pflag.Value.
func (f *dialectFlag) String() string {
	names := make([]string, len(f.all))
	for i, d := range f.all {
		names[i] = string(d)
	}
	return strings.Join(names, ",")
}

// Type implements pflag.Value.
func (f *dialectFlag) Type() string { return "graph,composition" }
