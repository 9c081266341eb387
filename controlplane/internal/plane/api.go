package plane

import (
	"context"
	"net"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/espalier-dev/espalier/controlplane/internal/pki"
)

// drain is how long a stopping API server may take to finish requests in flight.
const drain = 5 * time.Second

// api is a running kube-apiserver.
type api struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended; err says why
	err    error
}

// startAPI returns at once; the server is ready some seconds later. Connections wait until then.
func startAPI(h *home, s *store, keys pki.Set, listener net.Listener) (*api, error) {
	anonymous, err := writeAuthentication(h.file("authentication.yaml"))
	if err != nil {
		return nil, err
	}
	admission, err := writeAdmission(h, keys)
	if err != nil {
		return nil, err
	}
	// The server's own clients read deprecated kinds as well; their warnings would fill the log.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	o := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(apiFlags(s.endpoint, anonymous, admission, keys, listener.Addr())); err != nil {
		return nil, err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	o.SecureServing.Listener = listener

	ctx, cancel := context.WithCancel(context.Background())
	completed, err := o.Complete(ctx)
	if err == nil {
		err = utilerrors.NewAggregate(completed.Validate())
	}
	if err != nil {
		cancel()
		return nil, err
	}
	a := &api{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = app.Run(ctx, completed)
	}()
	return a, nil
}

// stop shuts down gracefully, and returns after drain at the latest.
func (a *api) stop() {
	a.cancel()
	select {
	case <-a.done:
	case <-time.After(drain):
	}
}
