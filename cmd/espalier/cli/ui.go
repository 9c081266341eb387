package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
)

// uiFlags are the flags of ui.
type uiFlags struct {
	where           clusterFlags
	address, socket string
}

func newUI() *cobra.Command {
	var flags uiFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page that shows what is not ready in the cluster, and why",
		Long: "Serves a page on this machine, for you: everything that is not ready, the worst first, with a\n" +
			"search over all kinds; one instance as a graph that moves as it happens, each resource with its\n" +
			"cause, waits, blockers, conditions, events, last writers and YAML, whose fields name their origin;\n" +
			"definitions with their schemas, revisions and rollouts; and the watches and queues of the\n" +
			"controllers, if they run on this machine as this user.\n\n" +
			"It reads with the permissions of the kubeconfig, writes nothing, and shows remedies as commands\n" +
			"to copy. It listens on loopback only. The address that it prints contains a secret that lets its\n" +
			"holder read with your permissions: do not pass it on.\n\n" +
			"Exit codes: 0 when it is interrupted, 1 after a failure, 2 for invalid arguments.",
		Example: "  espalier ui\n" +
			"  espalier ui --address 127.0.0.1:7070 --context prod\n" +
			"  ssh -L 7070:127.0.0.1:7070 host espalier ui --address 127.0.0.1:7070",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveUI(cmd, flags) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVar(&flags.address, "address", "127.0.0.1:0", "loopback address to listen on; port 0 is a free one")
	cmd.Flags().StringVar(&flags.socket, "socket", "", "socket of the controllers, if they run with --introspection-socket")
	return cmd
}

// Times of servers of pages.
const (
	pageHeaderLimit = 10 * time.Second // for the header of a request
	pageIdleLimit   = time.Minute      // for a connection without requests
	pageStopLimit   = 2 * time.Second  // for requests in flight when the program stops
	maxPageHeader   = 32 << 10         // bytes of the header of a request
)

func serveUI(cmd *cobra.Command, flags uiFlags) error {
	host, _, err := net.SplitHostPort(flags.address)
	if err != nil {
		return &usageError{fmt.Errorf("--address: %w", err)}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return &usageError{fmt.Errorf("--address must be on loopback, such as 127.0.0.1:7070, not %q: every client that reaches it would read with your permissions", flags.address)}
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	socket := flags.socket
	if socket == "" {
		socket = introspect.SocketPath(config)
	}
	cluster, err := ui.NewCluster(config, introspected(socket))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", flags.address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", flags.address, err)
	}
	user := userOf(cmd.Context(), config)
	secret, base := rand.Text(), "/"+rand.Text()+"/"
	handler := ui.NewServer(ui.Options{
		Title: config.Host, Secret: secret, Base: base, IsHost: ui.IsLoopback(listener.Addr()),
		Viewer: func() (*ui.Session, error) { return &ui.Session{User: user, Cluster: cluster}, nil },
	})
	address := "http://" + listener.Addr().String() + base + "login?token=" + secret
	fmt.Fprintf(prose(cmd.OutOrStdout()), "Serving the page until interrupted. Open this address; it lets its holder read as you do:\n\n  %s\n\n", address)
	return servePages(cmd.Context(), &http.Server{Handler: handler}, func(s *http.Server) error { return s.Serve(listener) })
}

// servePages runs a server until the context ends. Streams end with the context.
func servePages(ctx context.Context, s *http.Server, serve func(*http.Server) error) error {
	s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes = pageHeaderLimit, pageIdleLimit, maxPageHeader
	s.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 1)
	go func() { ended <- serve(s) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageStopLimit)
	defer cancel()
	if s.Shutdown(stopping) != nil {
		_ = s.Close() // drops the requests that are still in flight
	}
	<-ended
	return nil
}

// userOf is the name of the user of a configuration; empty if the API server does not say it.
func userOf(ctx context.Context, config *rest.Config) string {
	client, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return ""
	}
	review, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// introspected reads the watches and queues of the program that listens on a socket.
func introspected(socket string) ui.Program {
	return func(ctx context.Context) ([]page.Watch, []page.Queue, error) {
		watches, err := introspect.ListWatches(ctx, socket)
		var notListening *introspect.NotListeningError
		if errors.As(err, &notListening) {
			return nil, nil, errors.New("the controllers do not run on this machine as this user; in a pod, espalier watches shows their watches")
		}
		if err != nil {
			return nil, nil, err
		}
		queues, err := introspect.ListQueues(ctx, socket)
		if err != nil {
			return nil, nil, err
		}
		return pageWatches(watches), pageQueues(queues), nil
	}
}

func pageWatches(all []introspect.Watch) []page.Watch {
	out := make([]page.Watch, 0, len(all))
	for _, w := range all {
		out = append(out, page.Watch{
			Group: w.Group, Version: w.Version, Kind: w.Kind, Selection: w.Selection, As: w.As, State: w.State, Reason: w.Reason, Message: w.Message,
			Since: w.Since, Subscribers: w.Subscribers, Objects: w.Objects, Events: w.Events, Unavailable: w.Unavailable(),
		})
	}
	return out
}

func pageQueues(all []introspect.Queue) []page.Queue {
	out := make([]page.Queue, 0, len(all))
	for _, q := range all {
		out = append(out, page.Queue(q))
	}
	return out
}
