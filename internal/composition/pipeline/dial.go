package pipeline

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// roundRobin balances calls over all addresses of a target, for example of a headless
// Service.
const roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}]}`

// dial makes a client that connects with the first call.
func (r *Remote) dial(e Endpoint) (*grpc.ClientConn, error) {
	if err := e.check(r.options.Certificates); err != nil {
		return nil, &CallError{Code: "FailedPrecondition", Message: err.Error(), Err: err}
	}
	var own credentials.TransportCredentials = &mutualTLS{certificates: r.options.Certificates, serverName: e.ServerName}
	if e.Insecure {
		own = insecure.NewCredentials()
	}
	connection, err := grpc.NewClient(e.Target,
		grpc.WithTransportCredentials(own),
		grpc.WithDefaultServiceConfig(roundRobin),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(r.options.IdleTimeout),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A short delay, so a restarted function is reached again soon.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Pings detect a machine that is gone, so calls don't wait for their timeout. Servers tolerate that few pings
		// within the time of a call.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithUnaryInterceptor(boundValues),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(r.options.MaxBytes), grpc.MaxCallSendMsgSize(r.options.MaxBytes)),
	)
	if err != nil {
		return nil, &CallError{Code: "InvalidArgument", Message: err.Error(), Err: err}
	}
	return connection, nil
}
