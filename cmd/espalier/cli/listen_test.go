package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
)

func TestAnAddressInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	used := listener.Addr().String()
	for name, tc := range map[string]struct {
		args                  []string
		health, metrics, fail string
	}{
		"the default, which is served nowhere": {health: "0", metrics: "0"},
		"given by a flag":                      {args: []string{"--metrics-bind-address", used}, fail: "--metrics-bind-address: listen tcp " + used + ": bind: address already in use; choose another address, or 0 for none"},
		"invalid":                              {args: []string{"--health-probe-bind-address", "127.0.0.1:http:1"}, fail: "--health-probe-bind-address: "},
		"none":                                 {args: []string{"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0"}, health: "127.0.0.1:0", metrics: "0"},
	} {
		var f configuration
		cmd := &cobra.Command{}
		f.addControllers(f.add(cmd, server.ControllerConfiguration{
			Health: server.HealthConfiguration{BindAddress: used}, Metrics: server.MetricsConfiguration{BindAddress: used},
		}))
		if err := cmd.ParseFlags(tc.args); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		o := manager.Options{HealthAddress: f.Health.BindAddress, MetricsAddress: f.Metrics.BindAddress, Log: manager.NewLogger(&log, manager.LogText, 0)}
		err := f.checkAddresses(cmd, &o)
		if tc.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("%s: %v does not contain %q", name, err, tc.fail)
			}
			continue
		}
		if err != nil || o.HealthAddress != tc.health || o.MetricsAddress != tc.metrics {
			t.Errorf("%s: %q and %q, %v", name, o.HealthAddress, o.MetricsAddress, err)
		}
		if warns := strings.Contains(log.String(), "--metrics-bind-address"); warns != (tc.args == nil) {
			t.Errorf("%s: logged %q", name, log.String())
		}
	}
}

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
