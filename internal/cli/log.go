package cli

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// newLogger returns a logger that writes lines of key=value, and makes the
// libraries use it too.
func newLogger(to io.Writer, verbosity int) logr.Logger {
	var handler slog.Handler = slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
	current.Store(&handler)
	tellLibraries()
	return logr.FromSlogHandler(handler)
}

// The libraries take a logger once, for what they have running reads it without
// a lock. Theirs passes on to the newest of ours.
var (
	current       atomic.Pointer[slog.Handler]
	tellLibraries = sync.OnceFunc(func() {
		log := logr.FromSlogHandler(newest{})
		klog.SetLogger(log)
		ctrl.SetLogger(log)
	})
)

// newest is a handler that passes on to the current one.
type newest struct{}

func (newest) Enabled(ctx context.Context, l slog.Level) bool {
	return (*current.Load()).Enabled(ctx, l)
}
func (newest) Handle(ctx context.Context, r slog.Record) error {
	return (*current.Load()).Handle(ctx, r)
}
func (newest) WithAttrs(attrs []slog.Attr) slog.Handler { return (*current.Load()).WithAttrs(attrs) }
func (newest) WithGroup(name string) slog.Handler       { return (*current.Load()).WithGroup(name) }
