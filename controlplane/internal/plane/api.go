//go:build !assets

package plane

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// startAPI runs kube-apiserver in this process. It returns at once; the server is ready some seconds later. Connections
// wait until then.
func startAPI(arguments []string, listener net.Listener) (component, error) {
	// The server's own clients read deprecated kinds as well; their warnings would fill the log.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	o := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(append(arguments, "--feature-gates="+strings.Join(disabledFeatures, ","))); err != nil {
		return component{}, err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return component{}, err
	}
	o.SecureServing.Listener = listener

	ctx, cancel := context.WithCancel(context.Background())
	completed, err := o.Complete(ctx)
	if err == nil {
		err = utilerrors.NewAggregate(completed.Validate())
	}
	if err != nil {
		cancel()
		return component{}, err
	}
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- app.Run(ctx, completed)
		close(done)
	}()
	return component{ended: ended, kill: func() {}, stop: func() {
		cancel()
		select {
		case <-done:
		case <-time.After(drain):
		}
	}}, nil
}

// disabledFeatures are features of the API server that one server for one user has no use for.
var disabledFeatures = []string{
	// There is only one server. Without these two it does not renew a lease every ten seconds, and writes nothing while
	// it is idle.
	"APIServerIdentity=false", "UnknownVersionInteroperabilityProxy=false",
	// Every five minutes it would list all objects of each resource from etcd, to compare them with its cache.
	"DetectCacheInconsistency=false",
	// It would keep each revision of the index of its cache, for lists of earlier revisions. etcd has them.
	"ListFromCacheSnapshot=false",
}
