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

// To is the response that a function starts from: it hands on what the steps before it
// want and say.
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

// Main serves the function as the program's flags say, until the program is interrupted,
// and ends the program. The flags are those that function programs commonly have.
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

// Run is Main with its arguments given: it serves until the context is done. What is
// wrong with the arguments is explained on out.
func Run(ctx context.Context, run Func, arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("function", flag.ContinueOnError)
	flags.SetOutput(out)
	address := flags.String("address", ":9443", "`address` to listen on")
	certificates := flags.String("tls-certs-dir", os.Getenv("TLS_SERVER_CERTS_DIR"), "`directory` of tls.crt, tls.key and ca.crt")
	plain := flags.Bool("insecure", false, "serve without TLS")
	flags.Bool("debug", false, "accepted, and of no effect here")
	flags.Bool("d", false, "accepted, and of no effect here")
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
