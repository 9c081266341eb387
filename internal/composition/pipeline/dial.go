package pipeline

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// balanced spreads calls over all addresses of a target, as of a headless Service.
const balanced = `{"loadBalancingConfig": [{"round_robin": {}}]}`

// dial makes a connection, which connects when it is used.
func (r *Remote) dial(e Endpoint) (*grpc.ClientConn, error) {
	if err := e.check(r.options.Certificates); err != nil {
		return nil, &CallError{Code: "FailedPrecondition", Message: err.Error(), Err: err}
	}
	var own credentials.TransportCredentials = &mutual{certificates: r.options.Certificates, serverName: e.ServerName}
	if e.Plain {
		own = insecure.NewCredentials()
	}
	connection, err := grpc.NewClient(e.Target,
		grpc.WithTransportCredentials(own),
		grpc.WithDefaultServiceConfig(balanced),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(r.options.Idle),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A function that comes back is found soon.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A function whose machine has vanished says nothing; calls should not wait for it
		// to their end. Servers allow so few pings within the time of a call.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(r.options.Bytes), grpc.MaxCallSendMsgSize(r.options.Bytes)),
	)
	if err != nil {
		return nil, &CallError{Code: "InvalidArgument", Message: err.Error(), Err: err}
	}
	return connection, nil
}
