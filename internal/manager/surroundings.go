package manager

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// OwnNamespace is the pod's namespace, as every pod with a service account has it,
// or else default.
func OwnNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if name := strings.TrimSpace(string(raw)); err == nil && name != "" {
		return name
	}
	return "default"
}

var libraries sync.Once

// NewLogger returns a logger that writes lines of key=value. The libraries, which
// have one logger for the whole process, use the first one.
func NewLogger(to io.Writer, verbosity int) logr.Logger {
	log := logr.FromSlogHandler(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.Level(-verbosity)}))
	libraries.Do(func() {
		klog.SetLogger(log)
		ctrl.SetLogger(log)
	})
	return log
}
