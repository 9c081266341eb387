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

// Namespace creates a namespace with a unique name and returns the name. At the end of the
// test it deletes the namespace without waiting, unless the server is discarded as well: a
// namespace that stays Terminating, because no controller removes the finalizers in it, keeps a
// server busy with lists of all kinds.
func Namespace(tb testing.TB, c *rest.Config) string {
	tb.Helper()
	return namespace(tb, c, isThrowaway())
}

// namespace is Namespace; with keep it does not delete the namespace.
func namespace(tb testing.TB, c *rest.Config, keep bool) string {
	tb.Helper()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		tb.Fatal(err)
	}
	namespaces := client.CoreV1().Namespaces()
	created, err := namespaces.Create(tb.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if keep {
		return created.Name
	}
	tb.Cleanup(func() {
		// tb.Context has ended by now, and the test may have deleted the namespace itself.
		err := namespaces.Delete(context.Background(), created.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			tb.Errorf("delete namespace %s: %v", created.Name, err)
		}
	})
	return created.Name
}

// Group returns a unique name of an API group, such as "t3f9a01c2.example.com", for the kinds
// of one test among others on the same server.
func Group(tb testing.TB) string {
	tb.Helper()
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails, says its documentation
	return "t" + hex.EncodeToString(id[:]) + ".example.com"
}
