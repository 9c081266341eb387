package function

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// To returns the response that a function starts with: it has the desired state and the
// context of the request.
func To(request *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	desired := request.GetDesired()
	if desired == nil {
		desired = &fnv1.State{}
	}
	return &fnv1.RunFunctionResponse{
		Meta:    &fnv1.ResponseMeta{Tag: request.GetMeta().GetTag()},
		Desired: desired,
		Context: request.GetContext(),
	}
}

// Main parses the program's flags and serves the function until the program gets SIGINT or SIGTERM. On an error it
// exits with code 1. It has the flags of Crossplane's functions.
func Main(run Func) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Run(ctx, run, os.Args[1:], os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
}

// Run is Main with explicit arguments: it serves until the context is done. It prints usage
// and errors of the arguments to out.
func Run(ctx context.Context, run Func, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("function", flag.ContinueOnError)
	flags.SetOutput(out)
	// The default is what Crossplane expects of the programs in its pods and containers, which it passes no address.
	address := flags.String("address", ":9443", "`address` to listen on; by default all interfaces: outside of a pod or container, set 127.0.0.1:9443")
	certificates := flags.String("tls-certs-dir", os.Getenv("TLS_SERVER_CERTS_DIR"), "`directory` of tls.crt, tls.key and ca.crt")
	plain := flags.Bool("insecure", false, "serve without TLS")
	flags.Bool("debug", false, "ignored, for compatibility")
	flags.Bool("d", false, "ignored, for compatibility")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	option := Insecure()
	if !*plain {
		config, err := MutualTLS(cmp.Or(*certificates, "."))
		if err != nil {
			return err
		}
		option = WithTLS(config)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
	if err != nil {
		return err
	}
	return Serve(ctx, listener, run, option)
}
