// Package function is an SDK for functions of a composition's pipeline, and for tests of
// them. A function program is:
//
//	func main() { function.Main(run) }
package function

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Func is a function. It must be safe for concurrent use.
type Func func(ctx context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)

// Option configures Serve.
type Option func(*options)

type options struct {
	tls   *tls.Config
	plain bool
	bytes int
}

// WithTLS serves with a TLS configuration, such as MutualTLS returns.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// Insecure serves without TLS and without authentication.
func Insecure() Option { return func(o *options) { o.plain = true } }

// MaxBytes limits the size of a message. The default is 16 MiB.
func MaxBytes(n int) Option { return func(o *options) { o.bytes = n } }

// Serve serves the function on the listener, as v1 and v1beta1 of the service, until the
// context is done; calls in flight complete first. It requires WithTLS or Insecure. A panic
// of the function fails the call, not the program.
func Serve(ctx context.Context, listener net.Listener, run Func, opts ...Option) error {
	o := options{bytes: 16 << 20}
	for _, option := range opts {
		option(&o)
	}
	var serverCredentials credentials.TransportCredentials
	switch {
	case o.tls != nil:
		serverCredentials = credentials.NewTLS(o.tls)
	case o.plain:
		serverCredentials = insecure.NewCredentials()
	default:
		return errors.New("no credentials: pass WithTLS or Insecure")
	}
	server := grpc.NewServer(grpc.Creds(serverCredentials), grpc.MaxRecvMsgSize(o.bytes), grpc.MaxSendMsgSize(o.bytes))
	handler := service{run: run}
	fnv1.RegisterFunctionRunnerServiceServer(server, handler)
	fnv1.RegisterBetaFunctionRunnerServiceServer(server, handler)
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	if err := server.Serve(listener); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// service is the gRPC service of a function.
type service struct {
	fnv1.UnimplementedFunctionRunnerServiceServer
	run Func
}

func (s service) RunFunction(ctx context.Context, request *fnv1.RunFunctionRequest) (response *fnv1.RunFunctionResponse, err error) {
	defer func() {
		if value := recover(); value != nil {
			text := "the function failed with a " + panicText(value)
			fmt.Fprintf(os.Stderr, "%s\n%s", text, debug.Stack())
			err = status.Error(codes.Internal, text)
		}
	}()
	return s.run(ctx, request)
}

// panicText describes the value of a panic in errors and logs: the text of a mistake in the program, and of anything
// else its type alone, because the value may quote a Secret.
func panicText(value any) string {
	if mistake, ok := value.(runtime.Error); ok {
		return "panic: " + mistake.Error()
	}
	return fmt.Sprintf("panic with a %T", value)
}
