// Command espalier is the Espalier control plane and its tools.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // images and Windows have no time zone database, which the CEL functions of timestamps need

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/program/manager"
)

func main() {
	local.EnterNamespaces()
	manager.TuneGC()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
