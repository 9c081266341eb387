// Package rpc serves composition functions to tests.
package rpc

import (
	"context"
	"net"
	"testing"

	"github.com/espalier-dev/espalier/sdk/function"
)

// Serve serves a function over loopback until the test ends, and returns its address.
func Serve(t *testing.T, run function.Func, options ...function.Option) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- function.Serve(ctx, listener, run, options...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}
