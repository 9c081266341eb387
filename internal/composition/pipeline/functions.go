package pipeline

import (
	"context"
	"runtime/debug"
	"sync"

	"google.golang.org/protobuf/proto"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Func is a function as Go code. It owns the request that it is given.
type Func = func(ctx context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)

// Functions are functions in this process. Its zero value has none.
type Functions struct {
	mu    sync.RWMutex
	known map[string]Func
}

// Register makes a function known, in place of any other of its name; nil forgets it.
func (f *Functions) Register(name string, function Func) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[string]Func{}
	}
	if function == nil {
		delete(f.known, name)
		return
	}
	f.known[name] = function
}

// Run calls the function with a copy of the request. If it panics, that is a PanicError.
// If it goes on when the context is done, Run returns without it: its goroutine lives
// until it ends, and what it answers is dropped.
func (f *Functions) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	f.mu.RLock()
	function := f.known[name]
	f.mu.RUnlock()
	if function == nil {
		return nil, &UnknownError{Function: name}
	}
	type answer struct {
		response *fnv1.RunFunctionResponse
		err      error
	}
	answers := make(chan answer, 1)
	own := proto.CloneOf(request)
	go func() {
		var a answer
		defer func() { answers <- a }()
		defer recovered(&a.err)
		a.response, a.err = function(ctx, own)
	}()
	select {
	case a := <-answers:
		return a.response, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// recovered turns a panic of the function that defers it into an error.
func recovered(err *error) {
	if value := recover(); value != nil {
		*err = &PanicError{Value: value, Stack: debug.Stack()}
	}
}
