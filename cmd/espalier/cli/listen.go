package cli

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/program/manager"
)

// checkAddresses returns an error that names the flag if the controllers cannot listen on a configured address. Another program may
// use the default, such as a second process on a workstation: the controllers run without it.
func (c *configuration) checkAddresses(cmd *cobra.Command, o *manager.Options) error {
	return errors.Join(
		checkAddress(cmd, "health-probe-bind-address", &o.HealthAddress, c.defaults.Health.BindAddress, o),
		checkAddress(cmd, "metrics-bind-address", &o.MetricsAddress, c.defaults.Metrics.BindAddress, o),
	)
}

func checkAddress(cmd *cobra.Command, flag string, address *string, byDefault string, o *manager.Options) error {
	if *address == "" || *address == "0" {
		return nil
	}
	listener, err := net.Listen("tcp", *address)
	switch {
	case err == nil:
		return listener.Close()
	case errors.Is(err, syscall.EADDRINUSE) && !cmd.Flags().Changed(flag) && *address == byDefault:
		o.Log.Info("warning: another program uses this address, which is not served; choose another with the flag", "flag", "--"+flag, "address", *address)
		*address = "0"
		return nil
	}
	return fmt.Errorf("--%s: %w; choose another address, or 0 for none", flag, err)
}
