package fnv1

import (
	"context"

	"google.golang.org/grpc"
)

// The v1beta1 name of the service. Its messages are the same on the wire as v1's, and functions that only implement
// v1beta1 are still in use.
const (
	BetaServiceName                              = "apiextensions.fn.proto.v1beta1.FunctionRunnerService"
	FunctionRunnerService_RunFunction_BetaMethod = "/" + BetaServiceName + "/RunFunction"
)

// RegisterBetaFunctionRunnerServiceServer registers the function as the v1beta1 service, for
// clients that only support that.
func RegisterBetaFunctionRunnerServiceServer(s grpc.ServiceRegistrar, function FunctionRunnerServiceServer) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: BetaServiceName,
		HandlerType: (*FunctionRunnerServiceServer)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "RunFunction", Handler: runBeta}},
		Metadata:    FunctionRunnerService_ServiceDesc.Metadata,
	}, function)
}

// runBeta handles a v1beta1 request, with interceptors.
func runBeta(server any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	request := new(RunFunctionRequest)
	if err := decode(request); err != nil {
		return nil, err
	}
	run := func(ctx context.Context, request any) (any, error) {
		return server.(FunctionRunnerServiceServer).RunFunction(ctx, request.(*RunFunctionRequest))
	}
	if intercept == nil {
		return run(ctx, request)
	}
	return intercept(ctx, request, &grpc.UnaryServerInfo{Server: server, FullMethod: FunctionRunnerService_RunFunction_BetaMethod}, run)
}

// RunBeta calls a function through the v1beta1 service.
func RunBeta(ctx context.Context, connection grpc.ClientConnInterface, request *RunFunctionRequest, options ...grpc.CallOption) (*RunFunctionResponse, error) {
	options = append([]grpc.CallOption{grpc.StaticMethod()}, options...)
	response := new(RunFunctionResponse)
	if err := connection.Invoke(ctx, FunctionRunnerService_RunFunction_BetaMethod, request, response, options...); err != nil {
		return nil, err
	}
	return response, nil
}
