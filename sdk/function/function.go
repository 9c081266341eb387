// Package function serves functions of a composition's pipeline, for their authors and
// for tests. A function that is a program needs no more than this:
//
//	func main() { function.Main(run) }
package function

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Func is a function. It may be called by several callers at once.
type Func func(ctx context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)

// Option changes how a function is served.
type Option func(*options)

type options struct {
	tls   *tls.Config
	plain bool
	bytes int
}

// WithTLS serves with such a configuration; MutualTLS makes one.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// Insecure serves without TLS, to whoever can reach the listener.
func Insecure() Option { return func(o *options) { o.plain = true } }

// MaxBytes is how large a message may be: 16 MiB.
func MaxBytes(n int) Option { return func(o *options) { o.bytes = n } }

// Serve answers calls on the listener, by both names that the service has had, until the
// context is done; calls under way end first. Whether it is served with TLS or without
// has to be said. A panic of the function fails the call, not the program.
func Serve(ctx context.Context, listener net.Listener, run Func, opts ...Option) error {
	o := options{bytes: 16 << 20}
	for _, option := range opts {
		option(&o)
	}
	var own credentials.TransportCredentials
	switch {
	case o.tls != nil:
		own = credentials.NewTLS(o.tls)
	case o.plain:
		own = insecure.NewCredentials()
	default:
		return errors.New("a function is served with TLS, or without if that is asked for")
	}
	server := grpc.NewServer(grpc.Creds(own), grpc.MaxRecvMsgSize(o.bytes), grpc.MaxSendMsgSize(o.bytes))
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

// MutualTLS takes the function's certificate from tls.crt and tls.key in a directory, and
// lets those call who have one that ca.crt has signed.
func MutualTLS(directory string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(directory, "ca.crt"))
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: no certificate of an authority", filepath.Join(directory, "ca.crt"))
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{own},
		ClientCAs:    authorities,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}

// service is a function as gRPC serves it.
type service struct {
	fnv1.UnimplementedFunctionRunnerServiceServer
	run Func
}

func (s service) RunFunction(ctx context.Context, request *fnv1.RunFunctionRequest) (response *fnv1.RunFunctionResponse, err error) {
	defer func() {
		if value := recover(); value != nil {
			fmt.Fprintf(os.Stderr, "function panicked: %v\n%s", value, debug.Stack())
			err = status.Errorf(codes.Internal, "the function panicked: %v", value)
		}
	}()
	return s.run(ctx, request)
}
