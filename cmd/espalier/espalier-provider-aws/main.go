// Command espalier-provider-aws is the program espalier with AWS's SDK. Without a command, it is the AWS provider by
// itself, with the flags of 'espalier provider run aws', unless its name is espalier, as in the image.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	_ "time/tzdata" // images and Windows have no time zone database, which the CEL functions of timestamps need

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	_ "github.com/espalier-dev/espalier/cmd/espalier/withaws"
	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/providers/aws"
	"github.com/espalier-dev/espalier/sdk/managed/serve"
)

func main() {
	local.EnterNamespaces()
	hasCommand := len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-")
	if !hasCommand && filepath.Base(os.Args[0]) != "espalier" {
		serve.MainOf(aws.Program())
		return
	}
	manager.TuneGC()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
