package definitions

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const scaled = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-scaled}
spec:
  schema:
    apiVersion: v1
    kind: Web
    group: $GROUP
    spec: {size: {replicas: integer | default=1 minimum=0 maximum=9 scale=true}}
    status:
      current: ${web.status.?replicas.orValue(0)}
      selector: app=${schema.metadata.name}
    scale: {statusReplicasPath: .status.current}
    versions:
      - {name: v1beta1}
  resources:
    - id: web
      readyWhen: ["${true}"]
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: "${schema.metadata.name}"}
        spec:
          replicas: ${schema.spec.size.replicas}
          selector: {matchLabels: {app: "${schema.metadata.name}"}}
          template: {metadata: {labels: {app: "${schema.metadata.name}"}}, spec: {containers: [{name: web, image: web}]}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: $NS}
spec: {scaleTargetRef: {apiVersion: $GROUP/v1, kind: Web, name: web}, minReplicas: 2, maxReplicas: 4}
`

// autoscaler resolves the target of a HorizontalPodAutoscaler as its controller does, which the API server here lacks.
type autoscaler struct {
	scale.ScalesGetter
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newAutoscaler(t *testing.T, s suite.Suite) autoscaler {
	t.Helper()
	found, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	scales, err := scale.NewForConfig(s.Config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(found))
	if err != nil {
		t.Fatal(err)
	}
	return autoscaler{scales, mapper}
}

// target is the resource that the autoscaler's reference names.
func (a autoscaler) target(t *testing.T, ref autoscalingv2.CrossVersionObjectReference) schema.GroupResource {
	t.Helper()
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	return mapping.Resource.GroupResource()
}

func replicasEqual(want int64) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if got, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); got != want {
			return fmt.Errorf("%d replicas, want %d", got, want)
		}
		return nil
	}
}

// TestAutoscalersScaleAnInstance has a HorizontalPodAutoscaler and kubectl scale an instance, in each version of its kind.
func TestAutoscalersScaleAnInstance(t *testing.T) {
	s := suite.New(t)
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	s.Apply(t, scaled)
	s.AwaitDefinitions(t, "scaled")
	web := schema.GroupVersionKind{Group: s.Group, Version: "v1", Kind: "Web"}
	s.Apply(t, "\napiVersion: $GROUP/v1\nkind: Web\nmetadata: {name: web, namespace: $NS}\n")
	s.Await(t, deployment, s.NS, "web", replicasEqual(1))
	hpa, err := kubernetes.NewForConfigOrDie(s.Config).AutoscalingV2().HorizontalPodAutoscalers(s.NS).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := newAutoscaler(t, s)
	resource, name := a.target(t, hpa.Spec.ScaleTargetRef), hpa.Spec.ScaleTargetRef.Name
	read := func(what string, spec, status int32) *autoscalingv1.Scale {
		t.Helper()
		s.Await(t, web, s.NS, "web", suite.HasField(int64(status), "status", "current"))
		got, err := a.Scales(s.NS).Get(t.Context(), resource, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := labels.Parse(got.Status.Selector); got.Spec.Replicas != spec || got.Status.Replicas != status || got.Status.Selector != "app=web" || err != nil {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		return got
	}
	current := read("at first", 1, 0)
	current.Spec.Replicas = hpa.Spec.MaxReplicas
	if _, err := a.Scales(s.NS).Update(t.Context(), resource, current, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Await(t, deployment, s.NS, "web", replicasEqual(4))
	s.SetStatus(t, deployment, s.NS, "web", map[string]any{"replicas": int64(3), "observedGeneration": int64(2)})
	read("while it scales", 4, 3)
	if _, err := a.Scales(s.NS).Patch(t.Context(), resource.WithVersion("v1"), "web", types.MergePatchType, []byte(`{"spec":{"replicas":10}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("more replicas than the schema allows: %v", err)
	}
	for i, version := range []string{"v1", "v1beta1"} {
		kubectlScale(t, s, "webs."+version+"."+s.Group, 5+i)
		s.Await(t, deployment, s.NS, "web", replicasEqual(int64(5+i)))
	}
}

func kubectlScale(t *testing.T, s suite.Suite, resource string, replicas int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Kubectl(t), "scale", resource, "web", "--namespace", s.NS, fmt.Sprintf("--replicas=%d", replicas),
		"--kubeconfig", testkit.Kubeconfig(t, s.Config))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl scale: %v\n%s", err, out)
	}
}
