package packages

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	containers "github.com/google/go-containerregistry/pkg/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// serves is the variable that makes this program a provider of a kind, as plural.group.
const serves = "ESPALIER_TEST_SERVES"

// serve is a provider: it listens with its certificate, and marks each object of its kind with the permissions of its own account.
func serve(kind string) error {
	dir, address := os.Getenv("TLS_SERVER_CERTS_DIR"), ""
	for _, arg := range os.Args[1:] {
		if value, ok := strings.CutPrefix(arg, "--address="); ok {
			address = value
		}
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", address, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = c.(*tls.Conn).Handshake() //nolint:forcetypeassert // tls.Listen makes no others
				c.Close()
			}()
		}
	}()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	plural, group, _ := strings.Cut(kind, ".")
	resource := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural})
	for range time.NewTicker(50 * time.Millisecond).C { // also until the kind exists, and the roles are bound
		all, err := resource.List(context.Background(), metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range all.Items {
			o := &all.Items[i]
			if ready, _, _ := unstructured.NestedBool(o.Object, "status", "ready"); !ready {
				o.Object["status"] = map[string]any{"ready": true}
				_, _ = resource.UpdateStatus(context.Background(), o, metav1.UpdateOptions{}) // a conflict brings another round
			}
		}
	}
	return nil
}

// serving is the image of a provider of a kind.
func serving(t *testing.T, kind string) containers.Image {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return script(t, fmt.Sprintf("%s=%s exec %s \"$@\"", serves, kind, own))
}

// kindIn is the body of a definition of a kind, in either form.
func kindIn(group, kind string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`
metadata: {name: %s.%s, labels: {of: the-package}}
spec:
  group: %s
  names: {kind: %s, plural: %s, singular: %s, listKind: %sList}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}, status: {type: object, properties: {ready: {type: boolean}}}}}}
`, plural, group, group, kind, plural, strings.ToLower(kind), kind)
}

func customResource(group, kind string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition" + kindIn(group, kind)
}

func managedResource(group, kind string) string {
	return "apiVersion: apiextensions.crossplane.io/v1alpha1\nkind: ManagedResourceDefinition" + kindIn(group, kind) + "  connectionDetails: [{name: password, description: of the thing}]\n"
}

// admission is a configuration of webhooks of no object that exists.
func admission(group string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: any}
webhooks:
- name: things.%s
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: webhook, namespace: system, path: /validate}}
  rules: [{apiGroups: [%s], apiVersions: [v1], resources: [others], operations: [DELETE]}]
`, group, group)
}
