package cli

import (
	"io"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var libraries sync.Once

// newLogger returns a logger that writes lines of key=value. The libraries,
// which have one logger for the whole process, use the first one.
func newLogger(to io.Writer, verbosity int) logr.Logger {
	handler := slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
	log := logr.FromSlogHandler(handler)
	libraries.Do(func() {
		klog.SetLogger(log)
		ctrl.SetLogger(log)
	})
	return log
}
