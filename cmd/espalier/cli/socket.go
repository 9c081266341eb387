package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
)

// socketFlags find the running program on this machine.
type socketFlags struct {
	where  clusterFlags
	socket string
}

func (f *socketFlags) add(cmd *cobra.Command) {
	f.where.add(cmd)
	cmd.Flags().StringVar(&f.socket, "socket", "", "socket of the program, if it runs with --introspection-socket")
}

// path returns the socket to connect to, and a description of the program that should listen on
// it. With --socket no cluster is needed.
func (f *socketFlags) path() (socket, program string, err error) {
	if f.socket != "" {
		return f.socket, "with --introspection-socket " + f.socket, nil
	}
	config, err := f.where.config()
	if err != nil {
		return "", "", err
	}
	return introspect.SocketPath(config), "for the cluster at " + config.Host + ", and be the leader", nil
}

// unreachable explains that no program listens, if that is the error.
func unreachable(err error, program string) error {
	var notListening *introspect.NotListeningError
	if errors.As(err, &notListening) {
		return fmt.Errorf("no program listens on %s: 'espalier up' or 'espalier run' must be running on this machine as this user %s", notListening.Socket, program)
	}
	return err
}
