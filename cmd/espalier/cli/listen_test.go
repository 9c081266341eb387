package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestNothingListensBeyondLoopbackByDefault covers the flags of all commands that are the address of a server.
func TestNothingListensBeyondLoopbackByDefault(t *testing.T) {
	found := false
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			check(c)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.HasSuffix(f.Name, "bind-address") || f.DefValue == "0" {
				return
			}
			found = true
			if host, _, err := net.SplitHostPort(f.DefValue); err != nil || !net.ParseIP(host).IsLoopback() {
				t.Errorf("%s: --%s is %s by default", cmd.CommandPath(), f.Name, f.DefValue)
			}
		})
	}
	check(newRoot())
	if !found {
		t.Error("no command has an address")
	}
}
