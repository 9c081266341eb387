package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe/doctor"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// sickKind is a kind of which the definition is gone, and which is converted by a webhook that does not run and has an expired
// certificate.
const sickKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.%[1]s
  labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: gone-%[2]s}
spec:
  group: %[1]s
  names: {kind: Thing, plural: things, singular: thing}
  scope: Namespaced
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {caBundle: %[3]s, service: {namespace: %[2]s, name: none}}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const sickObjects = `
apiVersion: %[1]s/v1
kind: Thing
metadata:
  name: stuck
  namespace: %[2]s
  finalizers: [example.com/guard]
  labels: {applyset.kubernetes.io/part-of: %[3]s, kro.run/instance-group: %[1]s, kro.run/instance-kind: Thing, kro.run/instance-version: v1, kro.run/instance-name: parent, kro.run/instance-namespace: %[2]s}
status:
  problems: [{node: web, reason: DriftContested, message: another manager keeps overwriting spec.replicas}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: espalier.espalier.dev, namespace: %[2]s}
spec: {holderIdentity: espalier-1, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: espalier, namespace: %[2]s, labels: {app.kubernetes.io/name: espalier, app.kubernetes.io/component: controllers, app.kubernetes.io/version: 0.0.1}}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: espalier, containers: [{name: espalier, image: espalier, args: [run]}]}}
`

// doctorOf runs doctor and returns its exit code and what it finds about the test's own objects, as "severity check object", sorted.
func doctorOf(t *testing.T, file, namespace, group string) (code int, own []string) {
	t.Helper()
	code, out, errs := call(t.Context(), "doctor", "--kubeconfig", file, "-o", "json", "--stuck-after", "0s", "--serviceaccount", namespace+":espalier")
	var found []doctor.Finding
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err, errs)
	}
	for _, f := range found {
		if f.Object == nil || f.Severity == doctor.OK {
			continue
		}
		text := strings.NewReplacer(namespace, "NS", group, "GROUP").Replace(f.Object.String())
		if text != f.Object.String() {
			own = append(own, string(f.Severity)+" "+f.Check+" "+text)
			if f.Remedy == "" {
				t.Errorf("%v has no remedy", f)
			}
		}
	}
	slices.Sort(own)
	return code, own
}

// expiredCertificate returns a certificate that is no longer valid, in PEM.
func expiredCertificate(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// TestDoctorFindsProblems makes problems of each kind on a real API server, finds each, and none of them once they are mended.
func TestDoctorFindsProblems(t *testing.T) {
	config := testkit.Server(t)
	c, namespace, group, file := testkit.NewCluster(t, config), testkit.Namespace(t, config), testkit.Group(t), testkit.Kubeconfig(t, config)
	certificate := expiredCertificate(t)
	if _, own := doctorOf(t, file, namespace, group); !slices.Equal(own, []string{"problem rights ServiceAccount NS/espalier"}) {
		t.Fatalf("before: %q", own)
	}
	thing := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}
	c.Apply(t, fmt.Sprintf(sickKind, group, namespace, base64.StdEncoding.EncodeToString(certificate)))
	t.Cleanup(func() {
		of := c.Resource(t, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "")
		if err := of.Delete(context.Background(), "things."+group, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	parent := object.Key{Group: group, Kind: "Thing", Namespace: namespace, Name: "parent"}
	c.Apply(t, fmt.Sprintf(sickObjects, group, namespace, inventory.ApplySetID(parent)))
	c.Delete(t, thing, namespace, "stuck")
	code, own := doctorOf(t, file, namespace, group)
	want := []string{
		"problem certificates CustomResourceDefinition things.GROUP",
		"problem contested Thing NS/stuck",
		"problem controllers Deployment NS/espalier",
		"problem controllers Lease NS/espalier.espalier.dev",
		"problem deletions Thing NS/stuck",
		"problem rights ServiceAccount NS/espalier",
		"problem webhooks CustomResourceDefinition things.GROUP",
		"warning orphans CustomResourceDefinition things.GROUP",
		"warning orphans Thing NS/stuck",
		"warning versions Deployment NS/espalier",
	}
	if code != exitNotReady || !slices.Equal(own, want) {
		t.Errorf("exit code %d: %q", code, own)
	}

	// Everything is mended.
	if _, err := c.Resource(t, thing, namespace).Patch(t.Context(), "stuck", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitGone(t, thing, namespace, "stuck")
	c.DeleteCRD(t, "things."+group)
	c.Delete(t, schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, namespace, "espalier.espalier.dev")
	c.Delete(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, namespace, "espalier")
	c.Apply(t, fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: %[1]s}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: ServiceAccount, name: espalier, namespace: %[1]s}]\n", namespace))
	if _, own := doctorOf(t, file, namespace, group); len(own) > 0 {
		t.Errorf("mended: %q", own)
	}
	c.Delete(t, schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}, "", namespace)
}

// TestDoctorReportsWhatTheCallerMayNotRead checks that missing rights of the caller are findings, not errors.
func TestDoctorReportsWhatTheCallerMayNotRead(t *testing.T) {
	config := rest.CopyConfig(testkit.Server(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	state, err := gatherInstallation(t.Context(), config, nil)
	if err != nil || state.Server == "" {
		t.Fatal(state.Server, err)
	}
	var forbidden []string
	for _, f := range doctor.Examine(state) {
		if f.Severity != doctor.Unknown {
			t.Errorf("%v is not unknown", f)
		}
		if f.Check == "unread" && strings.Contains(f.Remedy, "as a user who may read them") {
			forbidden = append(forbidden, f.Message)
		}
	}
	if len(forbidden) != 1 {
		t.Fatalf("the same cause is reported %d times: %q", len(forbidden), forbidden)
	}
	for _, what := range []string{"Deployments of the controllers, ", "CustomResourceDefinitions, ", "Leases of the controllers, ", " could not be read"} {
		if !strings.Contains(forbidden[0], what) {
			t.Errorf("%s is not in %s", what, forbidden[0])
		}
	}
}

func TestDoctorUsage(t *testing.T) {
	for _, args := range [][]string{{"-o", "wide"}, {"--serviceaccount", "no-namespace"}} {
		if code, _, errs := call(t.Context(), append([]string{"doctor"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

func TestProgramOf(t *testing.T) {
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/system/configmaps/espalier" {
			t.Errorf("read %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "ConfigMap", "apiVersion": "v1", "data": {"config.yaml":
			"{admissionPolicies: false, leaderElection: {namespace: b}, functions: {certificatesSecret: c/d}}"}}`)
	}))
	defer listening.Close()
	i, err := newInstallation(&rest.Config{Host: listening.URL})
	if err != nil {
		t.Fatal(err)
	}
	f := i.programOf(t.Context(), "system", corev1.PodSpec{
		Containers: []corev1.Container{{
			Args:         []string{"run", "--config=/etc/espalier/config.yaml", "--leader-election-namespace=a", "--webhook-bind-address=:1", "--of-another-release=1"},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/espalier"}},
		}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "espalier"}}}}},
	})
	if f.AdmissionPolicies || !f.LeaderElection.Enabled || f.LeaderElection.Namespace != "a" || f.Webhook.BindAddress != ":1" || f.Functions.CertificatesSecret != "c/d" {
		t.Errorf("%+v", f.ControllerConfiguration)
	}
	if len(i.state.Unread) > 0 {
		t.Errorf("unread: %v", i.state.Unread)
	}
}

// TestAnInterruptedDoctorReportsNothing interrupts it with the first list.
func TestAnInterruptedDoctorReportsNothing(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			interrupt()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"gitVersion": "v1.37.0"}`)
	}))
	defer server.Close()
	if _, err := gatherInstallation(ctx, &rest.Config{Host: server.URL}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
