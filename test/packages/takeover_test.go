package packages

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// crossplaneAuthority issues certificates as Crossplane does: RSA, for ten years.
type crossplaneAuthority struct {
	certificate *x509.Certificate
	key         *rsa.PrivateKey
	text        string
}

func encodePEM(kind string, raw []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}

func issueAsCrossplane(t *testing.T, by *crossplaneAuthority, hosts ...string) (a crossplaneAuthority, data string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2022), Subject: pkix.Name{CommonName: "Crossplane"}, DNSNames: hosts, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	if by == nil {
		c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, nil
		by = &crossplaneAuthority{certificate: c, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, by.certificate, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	a = crossplaneAuthority{certificate: c, key: key, text: encodePEM("CERTIFICATE", raw)}
	data = fmt.Sprintf("tls.crt: %s, tls.key: %s", a.text, encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)))
	if by.text != "" {
		data += ", ca.crt: " + by.text
	}
	return a, data
}

const left = `apiVersion: pkg.crossplane.io/v1
kind: %s
metadata: {name: left%s}
spec: {package: %s, packagePullPolicy: IfNotPresent, revisionActivationPolicy: Automatic, revisionHistoryLimit: 1, ignoreCrossplaneConstraints: false, skipDependencyResolution: false}
`

const leftRevision = `apiVersion: pkg.crossplane.io/v1
kind: %sRevision
metadata:
  name: %s
  labels: {pkg.crossplane.io/package: left%s}
  finalizers: [revision.pkg.crossplane.io]
  ownerReferences: [{apiVersion: pkg.crossplane.io/v1, blockOwnerDeletion: true, controller: true, kind: %s, name: left%s, uid: %s}]
spec: {desiredState: Active, image: %s, revision: 3, packagePullPolicy: IfNotPresent, ignoreCrossplaneConstraints: false, skipDependencyResolution: false%s}
`

const leftRuntime = `apiVersion: v1
kind: Service
metadata:
  name: leftfn
  namespace: NAMESPACE
  ownerReferences: [{apiVersion: pkg.crossplane.io/v1, kind: Function, name: leftfn, uid: PACKAGE}]
spec:
  clusterIP: None
  ports: [{name: grpc, port: 9443, targetPort: 9443, protocol: TCP, appProtocol: tls}]
  selector: {pkg.crossplane.io/function: leftfn, pkg.crossplane.io/revision: OF_REVISION}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: OF_REVISION
  namespace: NAMESPACE
  ownerReferences: [{apiVersion: pkg.crossplane.io/v1, blockOwnerDeletion: true, controller: true, kind: FunctionRevision, name: OF_REVISION, uid: OWNER}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: OF_REVISION
  namespace: NAMESPACE
  ownerReferences: [{apiVersion: pkg.crossplane.io/v1, blockOwnerDeletion: true, controller: true, kind: FunctionRevision, name: OF_REVISION, uid: OWNER}]
spec:
  replicas: 1
  selector: {matchLabels: {pkg.crossplane.io/function: leftfn, pkg.crossplane.io/revision: OF_REVISION}}
  template:
    metadata: {labels: {pkg.crossplane.io/function: leftfn, pkg.crossplane.io/revision: OF_REVISION}}
    spec:
      serviceAccountName: OF_REVISION
      securityContext: {runAsGroup: 2000, runAsNonRoot: true, runAsUser: 2000}
      containers:
      - name: package-runtime
        image: IMAGE
        imagePullPolicy: IfNotPresent
        args: ["--address=$(POD_IP):9443"]
        ports: [{containerPort: 8080, name: metrics}, {containerPort: 9443, name: grpc}]
        env:
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: TLS_SERVER_CERTS_DIR, value: /tls/server}
        - {name: FUNCTION_NAME, value: leftfn}
        - {name: REVISION_NAME, value: OF_REVISION}
        volumeMounts: [{mountPath: /tls/server, name: tls-server-certs, readOnly: true}]
      volumes:
      - name: tls-server-certs
        secret: {secretName: leftfn-tls-server, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}, {key: ca.crt, path: ca.crt}]}
`

// leave makes what Crossplane leaves of a package: its object, its revision and the statuses of both.
func (w *world) leave(t *testing.T, kind, suffix, image, revision, settings string, status map[string]any) (pkg, rev *unstructured.Unstructured) {
	t.Helper()
	pkg = w.Apply(t, fmt.Sprintf(left, kind, suffix, image))[0]
	rev = w.Apply(t, fmt.Sprintf(leftRevision, kind, revision, suffix, kind, suffix, pkg.GetUID(), image, settings))[0]
	is := func(types ...string) (out []any) {
		for _, kind := range types {
			reason := "HealthyPackageRevision"
			if kind == "Installed" {
				reason = "ActivePackageRevision"
			}
			out = append(out, map[string]any{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": "2026-11-22T12:40:00Z"})
		}
		return out
	}
	w.SetStatus(t, pkg.GroupVersionKind(), "", pkg.GetName(), map[string]any{"conditions": is("Installed", "Healthy"), "currentRevision": revision, "currentIdentifier": image, "resolvedPackage": image})
	status["conditions"] = is("RevisionHealthy")
	if kind != "Configuration" {
		status["conditions"] = is("RevisionHealthy", "RuntimeHealthy")
	}
	status["resolvedImage"] = image
	w.SetStatus(t, rev.GroupVersionKind(), "", revision, status)
	return pkg, rev
}

// TestPackagesOfCrossplaneAreTakenOver without a registry: names, UIDs and certificates stay, and no pod starts again.
func TestPackagesOfCrossplaneAreTakenOver(t *testing.T) {
	w := newWorld(t)
	function, configuration := w.host+"/org/leftfn:v1.0.0", w.host+"/org/leftconf:v1.0.0"
	w.push(t, "org/leftfn:v1.0.0", answering(t, "left"), w.meta("Function", "leftfn"))
	if err := w.start(t, w.config).Stop(); err != nil { // the kinds are installed
		t.Fatal(err)
	}

	authority, ca := issueAsCrossplane(t, nil)
	_, server := issueAsCrossplane(t, &authority, "leftfn", "leftfn."+w.namespace, "leftfn."+w.namespace+".svc")
	_, client := issueAsCrossplane(t, &authority, "crossplane")
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}, type: Opaque, data: {%s}}"
	w.Apply(t, fmt.Sprintf(secret, "crossplane-root-ca", w.namespace, ca))
	w.Apply(t, fmt.Sprintf(secret, "crossplane-tls-client", w.namespace, client))
	w.Apply(t, fmt.Sprintf(secret, "leftfn-tls-server", w.namespace, server))
	pkg, rev := w.leave(t, "Function", "fn", function, "leftfn-0123456789ab", ", tlsServerSecretName: leftfn-tls-server",
		map[string]any{"endpoint": "dns:///leftfn." + w.namespace + ":9443", "tlsServerSecretName": "leftfn-tls-server", "capabilities": []any{"composition"}})
	w.Apply(t, strings.NewReplacer("NAMESPACE", w.namespace, "OF_REVISION", rev.GetName(), "OWNER", string(rev.GetUID()), "PACKAGE", string(pkg.GetUID()), "IMAGE", function).Replace(leftRuntime))
	provider := w.host + "/org/leftprov:v1.0.0"
	w.push(t, "org/leftprov:v1.0.0", answering(t, "left"), w.meta("Provider", "leftprov"))
	prov, provRev := w.leave(t, "Provider", "prov", provider, "leftprov-0123456789ab", ", tlsServerSecretName: leftprov-tls-server, tlsClientSecretName: leftprov-tls-client",
		map[string]any{"endpoint": "dns:///leftprov." + w.namespace + ":9443", "tlsServerSecretName": "leftprov-tls-server", "tlsClientSecretName": "leftprov-tls-client"})
	_, server = issueAsCrossplane(t, &authority, "leftprov", "leftprov."+w.namespace, "leftprov."+w.namespace+".svc")
	_, client = issueAsCrossplane(t, &authority, provRev.GetName())
	w.Apply(t, fmt.Sprintf(secret, "leftprov-tls-server", w.namespace, server))
	w.Apply(t, fmt.Sprintf(secret, "leftprov-tls-client", w.namespace, client))
	w.Apply(t, strings.NewReplacer("NAMESPACE", w.namespace, "OF_REVISION", provRev.GetName(), "OWNER", string(provRev.GetUID()), "PACKAGE", string(prov.GetUID()), "IMAGE", provider,
		"leftfn", "leftprov", "pkg.crossplane.io/function", "pkg.crossplane.io/provider", "Function", "Provider", "FUNCTION_NAME", "PROVIDER_NAME").Replace(leftRuntime))
	conf, confRev := w.leave(t, "Configuration", "conf", configuration, "leftconf-0123456789ab", "",
		map[string]any{"objectRefs": []any{map[string]any{"apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition", "name": "lefts.packages.example.org"}}})
	w.Apply(t, strings.Replace(definition("Left"), "{name: lefts.packages.example.org}", fmt.Sprintf(`{name: lefts.packages.example.org, ownerReferences: [
  {apiVersion: pkg.crossplane.io/v1, kind: ConfigurationRevision, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}, {apiVersion: pkg.crossplane.io/v1, kind: Configuration, name: leftconf, uid: %s}]}`,
		confRev.GetName(), confRev.GetUID(), conf.GetUID()), 1))
	if w.Get(t, lockKind, "", "lock") == nil {
		w.Apply(t, "{apiVersion: pkg.crossplane.io/v1beta1, kind: Lock, metadata: {name: lock}}")
	}
	w.Patch(t, lockKind, "", "lock", fmt.Sprintf(`{"metadata": {"finalizers": ["lock.pkg.crossplane.io"]}, "packages": [
		{"name": %q, "apiVersion": "pkg.crossplane.io/v1", "kind": "Configuration", "source": %q, "version": "v1.0.0",
		 "dependencies": [{"package": %q, "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "constraints": ">=1.0.0"}]},
		{"name": %q, "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "source": %q, "version": "v1.0.0", "dependencies": []}]}`,
		confRev.GetName(), w.host+"/org/leftconf", w.host+"/org/leftfn", rev.GetName(), w.host+"/org/leftfn"))
	for _, name := range []string{rev.GetName(), provRev.GetName()} {
		w.Await(t, deploymentKind, w.namespace, name, func(o *unstructured.Unstructured) error {
			if n, _, _ := unstructured.NestedInt64(o.Object, "status", "availableReplicas"); n != 1 {
				return fmt.Errorf("it is not available")
			}
			return nil
		})
	}
	type identity struct{ uid, content string }
	objects := map[string]func() identity{}
	watched := func(kind schema.GroupVersionKind, namespace, name string, path ...string) {
		objects[kind.Kind+" "+name] = func() identity {
			o := w.Get(t, kind, namespace, name)
			if o == nil {
				return identity{}
			}
			content, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
			return identity{string(o.GetUID()), object.Digest(content)}
		}
	}
	watched(deploymentKind, w.namespace, rev.GetName(), "spec")
	watched(deploymentKind, w.namespace, provRev.GetName(), "spec")
	watched(secretKind, w.namespace, "leftprov-tls-server", "data")
	watched(secretKind, w.namespace, "leftprov-tls-client", "data")
	watched(provRev.GroupVersionKind(), "", provRev.GetName(), "spec")
	watched(schema.GroupVersionKind{Version: "v1", Kind: "Service"}, w.namespace, "leftfn", "spec")
	watched(schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, w.namespace, rev.GetName(), "secrets")
	watched(secretKind, w.namespace, "leftfn-tls-server", "data")
	watched(secretKind, w.namespace, "crossplane-tls-client", "type") // only its reader gets another certificate
	watched(secretKind, w.namespace, "crossplane-root-ca", "data", "tls.crt")
	watched(functionKind, "", "leftfn", "spec")
	watched(configurationKind, "", "leftconf", "spec")
	watched(rev.GroupVersionKind(), "", rev.GetName(), "spec")
	watched(confRev.GroupVersionKind(), "", confRev.GetName(), "spec")
	watched(definitionKind, "", "lefts.packages.example.org", "spec")
	watched(lockKind, "", "lock", "packages")
	before := map[string]identity{}
	for name, get := range objects {
		before[name] = get()
	}

	w.refuses.Store(http.StatusServiceUnavailable)
	c := w.start(t, w.config)
	ready := suite.All(healthy, suite.HasCondition("Ready", "True", "")) // which Crossplane does not write
	w.Await(t, functionKind, "", "leftfn", ready)
	w.Await(t, configurationKind, "", "leftconf", ready)
	w.Await(t, prov.GroupVersionKind(), "", "leftprov", ready)
	last := ""
	defer func() { t.Log("the last answer of the function:", last) }()
	testkit.Poll(t, "it answers", func() bool {
		last = call(t.Context(), c, "leftfn")
		return last == "left"
	})
	for name, get := range objects {
		if after := get(); after != before[name] {
			t.Errorf("%s was %v, and is %v", name, before[name], after)
		}
	}
	if n := w.kubelet.running(); n != 2 {
		t.Errorf("%d pods run", n)
	}

	// Another configuration replaces the Deployment.
	w.Apply(t, `{apiVersion: pkg.crossplane.io/v1beta1, kind: DeploymentRuntimeConfig, metadata: {name: default}, spec: {deploymentTemplate: {spec: {selector: {}, template: {spec: {terminationGracePeriodSeconds: 7, containers: [{name: package-runtime, args: ["--address=$(POD_IP):9443"], env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]}}}}}}`)
	w.Await(t, deploymentKind, w.namespace, rev.GetName(), func(o *unstructured.Unstructured) error {
		if seconds, _, _ := unstructured.NestedInt64(o.Object, "spec", "template", "spec", "terminationGracePeriodSeconds"); seconds != 7 {
			return fmt.Errorf("the configuration is not applied")
		}
		return nil
	})
	for _, kind := range []string{"FunctionRevision", "ConfigurationRevision"} {
		if all := w.List(t, functionKind.GroupVersion().WithKind(kind), "", "pkg.crossplane.io/package in (leftfn, leftconf)"); len(all) != 1 {
			t.Errorf("there are %d of %s", len(all), kind)
		}
	}
}

var lockKind = schema.GroupVersionKind{Group: "pkg.crossplane.io", Version: "v1beta1", Kind: "Lock"}
