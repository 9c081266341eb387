package commands

import (
	"strings"
	"testing"
)

// promises runs the commands of docs/promises.md in their order, in a control plane of their own.
func promises(t *testing.T, s *shell) {
	const start = "bin/espalier up --data-dir ~/espalier-promises --sandbox"
	p := page(t, "docs/promises.md")
	p.shows(t, start)
	running := s.startUp(t, start)

	// Nested status is live.
	s.run(t, p, "kubectl apply -f examples/eks-with-vpc/3-eksclusterwithvpc.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready rgd/eksclusterwithvpc", done)
	s.run(t, p, "kubectl apply -f examples/eks-with-vpc/4-instance.yaml", done)
	s.do(t, "kubectl wait --for=jsonpath='{.status.problems[0].reason}'=WaitingForKind eksclusterwithvpc/demo")
	s.run(t, p, "espalier tree eksclusterwithvpc/demo", done, "EksClusterWithVpc default demo False WaitingForKind", `(vpc) - WaitingForKind`, `no matches for kind "Vpc" in version "kro.run/v1alpha1"`)
	s.run(t, s.help(t, "why"), "espalier why eksclusterwithvpc demo", notReady, `no matches for kind "Vpc" in version "kro.run/v1alpha1"`, "What to do:")
	s.run(t, p, "kubectl apply -f examples/eks-with-vpc/1-vpc.yaml -f examples/eks-with-vpc/2-ekscluster.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready rgd/vpc rgd/ekscluster", done)
	// The tree names the fields that are missing, unless all have come already and the cluster is there.
	s.do(t, "kubectl wait --for=create vpc/demo --timeout=60s")
	if out := s.run(t, p, "espalier tree eksclusterwithvpc/demo", done, "Vpc default demo"); !contains(out, "EksCluster default demo") && !strings.Contains(out, "vpc.status.privateSubnet1ID") {
		t.Errorf("the tree does not name the missing field:\n%s", out)
	}
	s.run(t, p, "kubectl wait --for=condition=Ready eksclusterwithvpc/demo --timeout=60s", done)
	s.run(t, p, "espalier tree eksclusterwithvpc/demo", done, "EksClusterWithVpc default demo True", "Vpc default demo True", "Subnet default demo-private-1 True", "EksCluster default demo True", "Cluster default demo True")

	graphs := page(t, "docs/graphs.md")
	s.run(t, graphs, "espalier why ekscluster/demo spec.nodes -f examples/eks-with-vpc/", done,
		"spec.nodes of EksCluster default/demo is 3", "owned by kro.run/applyset (Apply)", "ResourceGraphDefinition eksclusterwithvpc sets it, for EksClusterWithVpc default/demo:",
		"examples/eks-with-vpc/3-eksclusterwithvpc.yaml:43:18: spec.resources[1].template.spec.nodes", "${schema.spec.nodes}", "schema.spec.nodes is 3 (EksClusterWithVpc default/demo)",
		"owned by kubectl-client-side-apply (Update)")

	// Watches stop and start cleanly.
	s.run(t, p, "kubectl apply -f examples/widgets/1-definition.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready rgd/gizmo", done)
	s.run(t, p, "kubectl apply -f examples/widgets/2-instance.yaml", done)
	s.do(t, "kubectl wait --for=create configmap/one-note --timeout=60s")
	s.run(t, p, "espalier tree gizmo/one", done, "Gizmo default one False WaitingForKind", "(widget) - WaitingForKind")
	s.run(t, p, "kubectl apply -f examples/widgets/3-widget-crd.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready gizmo/one", done)
	s.run(t, p, "kubectl delete crd widgets.example.com", done)
	s.do(t, "kubectl wait --for=condition=Ready=false gizmo/one")
	s.run(t, p, "espalier tree gizmo/one", done, "Gizmo default one False WaitingForKind", "(widget) - WaitingForKind")
	s.run(t, p, "espalier watches", done, "KIND SELECTION STATE REASON SUBSCRIBERS OBJECTS EVENTS AGE WHY", "Widget.example.com/v1 managed Unavailable WaitingForKind", "1 unavailable")
	s.run(t, p, "kubectl apply -f examples/widgets/3-widget-crd.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready gizmo/one", done)

	// Deletion tells the truth and ends.
	s.run(t, p, `kubectl patch subnet demo-private-1 --type=json -p '[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/hold"}]'`, done)
	s.run(t, p, "espalier delete eksclusterwithvpc demo --watch --timeout 10s", blocked, "Subnet default/demo-private-1", "example.com/hold", "is not gone within 10s")
	s.run(t, p, "kubectl get eksclusterwithvpc", done, "demo", "DELETING")
	s.run(t, p, "espalier blockers eksclusterwithvpc demo", blocked, "Subnet default/demo-private-1", "example.com/hold")
	s.run(t, p, `kubectl patch subnet demo-private-1 --type=json -p '[{"op":"remove","path":"/metadata/finalizers/1"}]'`, done)
	s.run(t, p, "kubectl wait --for=delete eksclusterwithvpc/demo --timeout=60s", done)
	s.run(t, p, "kubectl get networks,subnets", done, "No resources found")

	// Identity is stable.
	s.run(t, p, "kubectl apply -f examples/eks-with-vpc/4-instance.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready eksclusterwithvpc/demo --timeout=60s", done)
	const subnets = "kubectl get subnets -o custom-columns=NAME:.metadata.name,UID:.metadata.uid"
	before := s.run(t, p, subnets, done, "demo-private-1", "demo-private-2")
	s.run(t, p, "kubectl annotate rgd vpc kro.run/allow-orphans=true", done)
	s.run(t, p, "kubectl delete rgd vpc", done)
	s.run(t, p, "kubectl get vpc,subnets", done, "vpc.kro.run/demo", "subnet.sandbox.espalier.dev/demo-private-1")
	s.run(t, p, "kubectl apply -f examples/eks-with-vpc/1-vpc.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready rgd/vpc", done)
	if after := s.run(t, p, subnets, done); after != before {
		t.Errorf("the subnets were\n%s, and are\n%s", before, after)
	}
	s.run(t, p, "espalier tree eksclusterwithvpc/demo", done, "EksClusterWithVpc default demo True")

	// Asynchronous creation survives any crash. The process was not started by the shell that runs the commands here.
	s.run(t, p, "bin/kubectl --kubeconfig ~/espalier-promises/kubeconfig apply -f examples/sandbox/bucket.yaml", done)
	p.shows(t, "kill -9 $!")
	running.kill()
	running = s.startUp(t, start)
	s.run(t, p, "kubectl wait --for=condition=Ready bucket/crash --timeout=60s", done)
	s.run(t, p, "kubectl get bindings.espalier.dev", done, "Bound")

	s.run(t, s.help(t, "delete"), "espalier delete eksclusterwithvpc demo --watch", done, "demo")
	s.run(t, page(t, "docs/getting-started.md"), "kubectl get networks,subnets", done, "No resources found")
	running.interrupt()
	running.wait(t, done)
}
