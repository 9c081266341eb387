package commands

import (
	"net"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
)

// using runs what the README and the pages about the first steps and about deletion show of a definition and its instances.
func using(t *testing.T, s *shell) {
	readme := page(t, "README.md")
	s.run(t, readme, readme.block(t, "metadata: {name: team}"), done, "team.kro.run/blue condition met", "Team default blue True Ready", "├─ Bucket default blue True", "└─ ConfigMap default blue True")
	s.do(t, "kubectl delete team blue && kubectl delete rgd team")
	p, tree, deletion := page(t, "docs/getting-started.md"), s.help(t, "tree"), page(t, "docs/deletion.md")
	s.run(t, p, "kubectl apply -f examples/eks-with-vpc/1-vpc.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Ready rgd/vpc", done)
	s.run(t, p, "kubectl get rgd", done, "vpc v1alpha1 Vpc Active True")
	s.run(t, p, "kubectl apply -f - <<EOF\napiVersion: kro.run/v1alpha1\nkind: Vpc\nmetadata: {name: main, namespace: default}\nEOF", done, "vpc.kro.run/main created")
	s.run(t, p, "espalier tree vpc main", done, "KIND NAMESPACE NAME READY REASON AGE WAITS FOR", "Vpc default main")
	s.run(t, p, "kubectl wait --for=condition=Ready vpc/main", done)
	s.run(t, page(t, "docs/gitops.md"), "kubectl wait --for=condition=Ready --timeout=5m vpc/main", done)
	s.run(t, p, "kubectl get networks,subnets", done, "network.sandbox.espalier.dev/main", "subnet.sandbox.espalier.dev/main-private-1")
	s.run(t, p, "kubectl get bindings.espalier.dev", done, "Bound")

	s.do(t, "kubectl create namespace prod; kubectl apply -n prod -f - <<EOF\napiVersion: kro.run/v1alpha1\nkind: Vpc\nmetadata: {name: main}\nEOF\nkubectl wait --for=condition=Ready -n prod vpc/main --timeout=60s")
	s.run(t, tree, "espalier tree rgd vpc", done, "ResourceGraphDefinition vpc True Ready", "├─ Vpc default main True Ready", "└─ Vpc prod main True Ready")
	s.run(t, tree, "espalier tree vpc --all-namespaces", done, "Vpc default main True Ready", "Vpc prod main True Ready")

	// A finalizer blocks both deletions until it is removed.
	const hold, release = `kubectl patch subnet main-private-1 -n %s --type=json -p '[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/hold"}]'`,
		`kubectl patch subnet main-private-1 -n %s --type=json -p '[{"op":"remove","path":"/metadata/finalizers/1"}]'`
	in := func(line, namespace string) string { return strings.ReplaceAll(line, "%s", namespace) }
	s.do(t, in(hold, "prod"))
	s.do(t, in(hold, "default"))
	watched := s.start(t, tree, "espalier tree vpcs.kro.run main -n prod --watch")
	watched.await(t, "Vpc prod main True Ready")
	deleted := s.start(t, s.help(t, "delete"), "espalier delete vpcs.kro.run main -n prod --watch --timeout 5m -o json")
	short := s.start(t, deletion, "espalier delete vpc main --watch")
	s.do(t, "kubectl wait --for=jsonpath='{.status.deletion.blocked}'=1 -n prod vpc/main --timeout=60s; kubectl wait --for=jsonpath='{.status.deletion.removed}'=1 vpc/main --timeout=60s")
	s.run(t, s.help(t, "blockers"), "espalier blockers vpcs.kro.run main -n prod", blocked, "Vpc prod/main is being deleted", "Subnet prod/main-private-1 Finalizer", "example.com/hold")
	s.run(t, deletion, "espalier blockers vpc main", blocked, "Subnet default/main-private-1", "espalier.dev/force-delete=privateSubnet1")
	s.run(t, s.help(t, "blockers"), "espalier blockers vpc main -o json | jq '.blockers[].object'", blocked, `"name": "main-private-1"`)
	s.run(t, deletion, "kubectl get vpc", done, "REMOVED", "1/3")
	s.do(t, in(release, "prod"))
	s.do(t, in(release, "default"))
	deleted.wait(t, done, `{"gone":true,"progress":{"removed":3,"total":3,"percent":100},"blockers":[]}`)
	short.wait(t, done, "1 of 3 removed (33%)", "3 of 3 removed (100%)", "Vpc default/main is gone")
	watched.wait(t, done, "Subnet main-private-1 gone", "Vpc prod/main gone")

	s.do(t, "kubectl apply -f - <<EOF\napiVersion: kro.run/v1alpha1\nkind: Vpc\nmetadata: {name: main, namespace: default}\nEOF\nkubectl wait --for=condition=Ready vpc/main --timeout=60s")
	s.run(t, p, "espalier delete vpc main --watch", done, "Vpc default/main is gone")
	s.run(t, page(t, "docs/reference/commands.md"), "espalier watches", done, "KIND SELECTION STATE REASON SUBSCRIBERS OBJECTS EVENTS AGE WHY", "Subnet.sandbox.espalier.dev/v1alpha1")
	s.run(t, s.help(t, "watches"), "espalier watches", done, "watches of")
}

// compositions runs the commands of docs/composition.md.
func compositions(t *testing.T, s *shell) {
	p := page(t, "docs/composition.md")
	s.run(t, p, "kubectl apply -f examples/store/1-definition.yaml -f examples/store/2-composition.yaml", done)
	s.run(t, p, "kubectl wait --for=condition=Established xrd/stores.platform.example.org", done)
	s.run(t, p, "kubectl apply -f examples/store/3-instance.yaml", done)
	s.do(t, "kubectl wait --for=condition=Ready store/photos --timeout=60s")
	s.run(t, p, "espalier tree store photos", done, "KIND NAMESPACE NAME READY REASON AGE WAITS FOR", "Store default photos True Available",
		"├─ Bucket default photos-1cacb1acb804 True Available", "└─ Role default photos-3df3c5b7957e True Available")
	s.run(t, p, "espalier delete store photos --watch", done, "Store default/photos is gone")

	// Other compositions of other kinds, one of which has the same name.
	s.do(t, "kubectl delete xrd stores.platform.example.org")
	s.do(t, "kubectl apply -f composites.yaml -f composition.yaml")
	s.do(t, "kubectl wait --for=condition=Established xrd/stores.example.org xrd/archives.example.org --timeout=60s")
	s.do(t, "kubectl apply -f composite.yaml")
	s.do(t, "kubectl wait --for=condition=Ready store/shop archive/all --timeout=60s")
	s.run(t, p, "espalier why configmap shop-a097743d32c1 data.region -f composition.yaml", done,
		`data.region of ConfigMap default/shop-a097743d32c1 is "aws/eu-west-1"`, "owned by kro.run/applyset (Apply), which last changed its fields", "Composition stores, revision 1 (stores-",
		"sets it, for Store default/shop: 1. step compose (function-patch-and-transform): base of config composition.yaml:19:30: spec.pipeline[0].input.resources[0].base.data.region sets \"us-east-1\"",
		"2. step compose (function-patch-and-transform): FromCompositeFieldPath composition.yaml:21:17: spec.pipeline[0].input.resources[0].patches[0]",
		`spec.region is "eu" (Store default/shop)`, `map: "eu-west-1" string: "aws/eu-west-1" sets "aws/eu-west-1"`)
	s.run(t, s.help(t, "why"), "espalier why bucket logs spec.forProvider.region -f composition.yaml", done, `spec.forProvider.region of Bucket default/logs is "north"`, "Composition archives", "composition.yaml:49:17")

	s.do(t, `kubectl patch composition stores --type=json -p '[{"op":"replace","path":"/spec/pipeline/0/input/resources/0/patches/0/transforms/0/map/eu","value":"eu-west-2"}]'`)
	region := func(want string) {
		t.Helper()
		s.do(t, "kubectl wait --for=jsonpath='{.data.region}'=aws/"+want+" configmap/shop-a097743d32c1 --timeout=60s")
	}
	region("eu-west-2")
	s.run(t, p, "espalier rollback composition/stores --to 1", done, "Composition stores rolls back from revision 2 to 1")
	region("eu-west-1")
	s.run(t, p, "espalier rollback composition/stores --end", done, "Composition stores is no longer rolled back")
	region("eu-west-2")
	s.run(t, s.help(t, "rollback"), "espalier rollback composition/stores --to 1", done)
	region("eu-west-1")

	s.run(t, p, "espalier run --check", done, "Unchanged resourcegraphdefinitions.kro.run", "Nothing prevents the installation of these CustomResourceDefinitions.")
}

// gitops runs the commands of docs/gitops.md.
func gitops(t *testing.T, s *shell) {
	p := page(t, "docs/gitops.md")
	s.do(t, "kubectl create namespace argocd")
	s.run(t, p, "espalier health --argocd | kubectl apply --server-side --field-manager espalier-health -f -", done, "configmap/argocd-cm serverside-applied")
	if out := s.do(t, "kubectl get configmap argocd-cm -n argocd -o yaml"); !strings.Contains(out, "kro.run_Vpc") {
		t.Errorf("there is no health check of Vpcs:\n%s", out)
	}
	s.run(t, p, "espalier health --flux vpc", done, "healthCheckExprs:", "kind: Vpc")
	s.run(t, s.help(t, "health"), "espalier health --flux vpc database.example.org", done, "kind: Vpc", "apiVersion: example.org/v1alpha1", "kind: Database")
	s.run(t, p, "espalier health --flux -f platform/", done, "kind: Database", "kind: WebApp")
}

// backups runs the commands of docs/backup.md where nothing is lost: test/backup loses something.
func backups(t *testing.T, s *shell) {
	p := page(t, "docs/backup.md")
	s.run(t, p, "espalier export --output control-plane.yaml", done, "wrote export")
	s.run(t, p, "espalier import control-plane.yaml", blocked, "nothing was written; problems:", "ResourceGraphDefinition webapp exists; an import overwrites nothing")
	s.do(t, "espalier export --definitions shop --output control-plane.yaml")
	s.do(t, "kubectl delete shop corner --cascade=background && kubectl wait --for=delete configmap/corner-shop --timeout=60s")
	s.do(t, "kubectl delete rgd shop && kubectl wait --for=delete gr/shop-r00001 --timeout=60s")
	s.run(t, p, "espalier import --dry-run control-plane.yaml", done, "create ResourceGraphDefinition shop", "create Shop default/corner")
	s.run(t, p, "espalier import control-plane.yaml", done, "create Shop default/corner")
	s.do(t, "kubectl wait --for=create configmap/corner-shop --timeout=60s")
	s.run(t, p, "kubectl get holds", done, "No resources found")
	s.run(t, p, "espalier import --abort control-plane.yaml", failed, "this import is not in progress")
	s.run(t, s.help(t, "export"), "espalier export -n prod | gzip > prod.yaml.gz", done)
	s.run(t, s.help(t, "import"), "gunzip -c prod.yaml.gz | espalier import -", blocked, "WebApp prod/shop exists")
}

// opening runs the commands of docs/ui.md.
func opening(t *testing.T, s *shell) {
	open := func(c *command) {
		t.Helper()
		c.await(t, "http://127.0.0.1:")
		c.await(t, "login?token=")
		address := regexp.MustCompile(`http://\S+`).FindString(c.text())
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: transport, Jar: jar}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s answers %s with %s", c.line, response.Status, response.Header.Get("Content-Type"))
		}
		c.interrupt()
		c.wait(t, done, "Serving the page until interrupted.")
	}
	open(s.start(t, page(t, "docs/ui.md"), "espalier ui"))

	s.do(t, "kubectl config set-context prod --cluster=$(kubectl config view --minify -o jsonpath='{.contexts[0].context.cluster}') --user=$(kubectl config view --minify -o jsonpath='{.contexts[0].context.user}')")
	const fixed = "espalier ui --address 127.0.0.1:7070 --context prod"
	port, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:7070")
	if err != nil { // another program has the port
		s.run(t, s.help(t, "ui"), fixed, failed, "listen on 127.0.0.1:7070")
		return
	}
	port.Close()
	open(s.start(t, s.help(t, "ui"), fixed))
}

// installing runs the commands of the page about installations that need no pods.
func installing(t *testing.T, s *shell) {
	p := page(t, "docs/install.md")
	const plugin = `mkdir -p ~/bin    # must be in the PATH
ln -s "$(command -v espalier)" ~/bin/kubectl-espalier
printf '#!/bin/sh\nexec kubectl-espalier __complete "$@"\n' > ~/bin/kubectl_complete-espalier
chmod +x ~/bin/kubectl_complete-espalier
kubectl espalier tree deployments`
	s.run(t, p, plugin, done, "KIND NAMESPACE NAME READY REASON AGE WAITS FOR", "Deployment default web")
	out := s.run(t, p, "espalier uninstall", done, "These objects stay:", "KIND OBJECTS", "WebApp.kro.run", "Nothing was changed; --yes uninstalls.")
	if strings.Contains(out, "Warning") {
		t.Errorf("it repeats warnings of the API server:\n%s", out)
	}
}

// uninstalling installs into the cluster, as after an 'espalier run' outside of the chart, and uninstalls. There are no pods.
func uninstalling(t *testing.T, s *shell) {
	p := page(t, "docs/install.md")
	s.run(t, p, "espalier install --image registry.example.com/espalier:0.1.0 | kubectl apply --server-side --force-conflicts -f -", done, "deployment.apps/espalier serverside-applied")
	s.run(t, p, "espalier install --image registry.example.com/espalier:0.1.0 | kubectl apply --server-side -f -", done, "deployment.apps/espalier serverside-applied")
	if image := s.do(t, "kubectl get deployment espalier -n espalier-system -o jsonpath='{.spec.template.spec.containers[0].image}'"); image != "registry.example.com/espalier:0.1.0" {
		t.Errorf("the image is %q", image)
	}
	s.run(t, page(t, "docs/ui.md"), "espalier install --image registry.example.com/espalier:0.1.0 --set ui.enabled=true | kubectl apply --server-side -f -", done, "service/espalier-ui serverside-applied")
	s.run(t, p, "espalier uninstall --yes", done, "These objects stay:", "WebApp.kro.run")
	s.do(t, "kubectl wait --for=delete deployment/espalier service/espalier-ui -n espalier-system --timeout=60s")
	s.do(t, "kubectl get webapp.kro.run shop -n prod")
	s.run(t, p, "espalier uninstall --yes --release-finalizers", done, "finalizers of")
	s.run(t, s.help(t, "version"), "espalier version", done, "espalier", "go1.")
}
