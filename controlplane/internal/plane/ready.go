package plane

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	readyPoll    = 25 * time.Millisecond
	readyTimeout = 2 * time.Minute
)

// waitReady waits until the API server is ready and the namespaces default and kube-system exist. It
// fails at once if the server exits before.
func waitReady(ctx context.Context, admin *rest.Config, ended <-chan error) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-ended:
			return false, fmt.Errorf("the API server exited: %w", err)
		default:
		}
		last = probe(ctx, client)
		return last == nil, nil
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("the API server is not ready: %w", last)
	}
	return err
}

func probe(ctx context.Context, client kubernetes.Interface) error {
	if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}
