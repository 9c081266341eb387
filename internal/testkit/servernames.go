package testkit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Namespace creates a namespace that nobody else has and returns its name. At the end of the test
// it is deleted, without waiting until it is gone, unless the server goes too: a namespace whose
// objects nobody takes apart any more keeps a server busy, since all kinds are listed in it again
// and again.
func Namespace(tb testing.TB, c *rest.Config) string {
	tb.Helper()
	return namespace(tb, c, throwaway())
}

// namespace is Namespace on a server that goes with all that is on it, or stays.
func namespace(tb testing.TB, c *rest.Config, goes bool) string {
	tb.Helper()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		tb.Fatal(err)
	}
	namespaces := client.CoreV1().Namespaces()
	made, err := namespaces.Create(tb.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if goes {
		return made.Name
	}
	tb.Cleanup(func() {
		// tb.Context has ended by now; and the test may have deleted it itself.
		err := namespaces.Delete(context.Background(), made.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			tb.Errorf("delete namespace %s: %v", made.Name, err)
		}
	})
	return made.Name
}

// Group returns the name of an API group that nobody else uses, such as "t3f9a01c2.example.com",
// for kinds of a test that runs beside others on the same server.
func Group(tb testing.TB) string {
	tb.Helper()
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails, says its documentation
	return "t" + hex.EncodeToString(id[:]) + ".example.com"
}
