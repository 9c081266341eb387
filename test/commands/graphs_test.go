package commands

import (
	"strconv"
	"strings"
	"testing"
)

// platform applies the definitions of testdata/platform.
func platform(t *testing.T, s *shell) {
	t.Helper()
	s.do(t, "for name in team-a team-b; do kubectl create namespace $name; done")
	s.do(t, "kubectl apply -f platform/")
	s.do(t, "kubectl wait --for=condition=Ready rgd/webapp rgd/database --timeout=60s")
}

// plans runs the commands about plans of docs/graphs.md, before and after the first instances. A plan takes a while, so that two
// are made at a time.
func plans(t *testing.T, s *shell) {
	p, help := page(t, "docs/graphs.md"), s.help(t, "plan")
	all := s.start(t, help, "espalier plan -f platform/ -f instances/ --exit-code")
	s.run(t, help, "espalier plan -f platform/ -o markdown > comment.md", done)
	all.wait(t, changes, "+ WebApp default/shop: create", "+ Deployment default/web (web): create", "6 instances. Nothing was written.")
	if comment := s.do(t, "cat comment.md"); !contains(comment, "### Plan of `espalier plan`") || !contains(comment, "Nothing would change.") {
		t.Errorf("comment.md is\n%s", comment)
	}
	s.do(t, "kubectl apply -f instances/")
	for _, namespace := range []string{"default", "prod", "team-a", "team-b"} {
		s.do(t, "kubectl wait --for=condition=Ready webapp --all --timeout=60s -n "+namespace)
	}
	same := s.start(t, help, "espalier plan -f platform/webapp.yaml")
	s.run(t, p, "espalier plan -f webapp.yaml", done,
		"~ CustomResourceDefinition webapps.kro.run: change spec.versions[name=v1alpha1].schema.openAPIV3Schema.properties.spec.properties.color:", `set to {"default":"red","type":"string"}`,
		`~ ResourceGraphDefinition webapp: change spec.resources[id=config].template.data.color: set to "${schema.spec.color}" spec.schema.spec.color: set to "string | default=red"`,
		"+ GraphRevision webapp-r00002: create", `~ WebApp default/shop: change spec.color: set to "red" and 5 more alike: prod/shop, team-a/cart, team-a/search, team-a/shop,`,
		`~ ConfigMap default/shop-config (config): change data.color: set to "red"`, "Plan: 1 created, 14 changed; 6 instances. Nothing was written.")
	same.wait(t, done, "Nothing would change.")

	// A third revision adds to the second, so that the second takes it away.
	s.do(t, "kubectl apply -f webapp.yaml && kubectl wait --for=jsonpath='{.status.servingRevision}'=2 rgd/webapp --timeout=60s")
	s.do(t, `kubectl patch rgd webapp --type=json -p '[{"op":"add","path":"/spec/resources/1/template/data/size","value":"big"}]'`)
	s.do(t, "kubectl wait --for=jsonpath='{.status.servingRevision}'=3 rgd/webapp --timeout=60s")
	for _, instance := range []string{"default/shop", "prod/shop", "team-a/cart", "team-a/search", "team-a/shop", "team-b/shop"} {
		namespace, name, _ := strings.Cut(instance, "/") // a plan leaves out what the controllers change meanwhile
		s.do(t, "kubectl wait --for=jsonpath='{.data.size}'=big configmap/"+name+"-config -n "+namespace+" --timeout=60s")
		s.do(t, "kubectl wait --for=condition=Ready webapp/"+name+" -n "+namespace+" --timeout=60s")
	}
	breaking := s.start(t, help, "espalier plan -f platform/webapp.yaml --against webapp-r00003")
	s.run(t, p, "espalier plan -f webapp.yaml --against webapp-r00003", done, "+ GraphRevision webapp-r00004: create", "~ ConfigMap default/shop-config (config): change", `data.size: "big" removed`,
		"Compared with what revision 3 of webapp makes of the instances")
	breaking.wait(t, blocked, "BreakingChange", "spec.schema.spec.color: field removed")
}

// explanations runs the commands of docs/graphs.md about what is wrong with an instance, and where values come from.
func explanations(t *testing.T, s *shell) {
	p, help := page(t, "docs/graphs.md"), s.help(t, "why")
	s.run(t, p, "espalier why webapp shop -n prod", done, "WebApp prod/shop is ready", "Revision 3 of ResourceGraphDefinition webapp (webapp-r00003)", "it is the newest one")

	s.do(t, `kubectl patch webapp shop --type=merge -p '{"spec":{"app":"other","cached":true}}'`)
	s.do(t, "kubectl wait --for=jsonpath='{.status.waiting[0].node}'=alerts webapp/shop --timeout=60s")
	s.run(t, p, "espalier tree webapp/shop", done, "KIND NAMESPACE NAME READY REASON AGE WAITS FOR", "WebApp default shop False Rejected",
		"Deployment default web False Rejected", "update rejected: Deployment.apps \"web\" is invalid: spec.selector:", "field is immutable",
		"(cache) - WaitingForKind", `no matches for kind "Redis" in version "cache.example.org/v1"; it continues when the kind is installed`, "(alerts) - Waiting")

	// hpa overwrites the field until the controllers give up for a while.
	for n := range 3 {
		s.do(t, "kubectl patch deployment web -n prod --subresource=scale --field-manager=hpa --type=merge -p '{\"spec\":{\"replicas\":"+strconv.Itoa(2+n)+"}}'")
		s.do(t, "kubectl wait -n prod --for=jsonpath='{.spec.replicas}'=1 deployment/web --timeout=60s")
	}
	s.do(t, `kubectl patch deployment web -n prod --subresource=scale --field-manager=hpa --type=merge -p '{"spec":{"replicas":5}}'`)
	s.do(t, "kubectl wait -n prod --for=jsonpath='{.status.problems[0].reason}'=DriftContested webapp/shop --timeout=60s")
	s.run(t, p, "espalier why deployment web -n prod", notReady, "spec.replicas of Deployment prod/web is written again and again, for", "hpa (Update of scale", "overwrites what the definition sets",
		"have hpa stop writing spec.replicas of Deployment prod/web",
		"or leave it to hpa, with driftPolicy: Ignore and driftPaths: [spec.replicas] for resource web: kubectl edit resourcegraphdefinition.kro.run webapp",
		"see what sets it: espalier why deployment.apps web spec.replicas -n prod")
	s.run(t, help, "espalier why webapp/shop -n prod -o json", notReady, `"ready": "False"`, `"reason": "DriftContested"`)
	s.run(t, help, "espalier why deployment web spec.replicas", done, "spec.replicas of Deployment default/web is 1", "ResourceGraphDefinition webapp sets it, for WebApp default/shop: spec.resources[0].template.spec.replicas",
		"${schema.spec.replicas} schema.spec.replicas is 1 (WebApp default/shop)")
	s.run(t, help, "espalier why deployment/web spec.replicas -f platform/", done, "platform/webapp.yaml:21:21: spec.resources[0].template.spec.replicas")
}

// rollbacks runs the commands of docs/graphs.md and docs/graph-kind.md about revisions.
func rollbacks(t *testing.T, s *shell) {
	p := page(t, "docs/graphs.md")
	s.do(t, "kubectl apply -f shop.yaml && kubectl wait --for=condition=Ready rgd/shop --timeout=60s")
	s.do(t, "kubectl apply -f - <<EOF\napiVersion: kro.run/v1alpha1\nkind: Shop\nmetadata: {name: corner, namespace: default}\nEOF")
	for _, revision := range []string{"2", "3", "4"} {
		s.do(t, `kubectl patch rgd shop --type=json -p '[{"op":"replace","path":"/spec/resources/0/template/data/revision","value":"`+revision+`"}]'`)
		s.do(t, "kubectl wait --for=jsonpath='{.status.servingRevision}'="+revision+" rgd/shop --timeout=60s")
	}
	composedBy := func(revision string) {
		t.Helper()
		s.do(t, "kubectl wait --for=jsonpath='{.data.revision}'="+revision+" configmap/corner-shop --timeout=60s")
	}
	composedBy("4")
	s.run(t, p, "espalier rollback shop --to 3", done, "ResourceGraphDefinition shop rolls back from revision 4 to 3")
	composedBy("3")
	s.run(t, p, "kubectl get gr", done, "NAME RGD REVISION READY AGE", "shop-r00001 shop 1 True", "shop-r00002 shop 2 True")
	s.run(t, p, "espalier rollback shop --end", done, "ResourceGraphDefinition shop is no longer rolled back")
	composedBy("4")
	s.run(t, s.help(t, "rollback"), "espalier rollback shop --to 3", done)
	s.run(t, s.help(t, "rollback"), "espalier rollback shop --end", done)
	composedBy("4")

	// A Graph.
	p = page(t, "docs/graph-kind.md")
	s.do(t, "kubectl create namespace apps; kubectl create serviceaccount builder -n apps; kubectl create rolebinding builder -n apps --clusterrole admin --serviceaccount apps:builder")
	s.do(t, "kubectl apply -f graph.yaml && kubectl wait --for=condition=Ready graph/shop -n apps --timeout=60s")
	s.do(t, `kubectl patch graph shop -n apps --type=json -p '[{"op":"replace","path":"/spec/nodes/0/def/port","value":9090}]'`)
	holds := func(port string) {
		t.Helper()
		s.do(t, "kubectl wait --for=jsonpath='{.data.port}'="+port+" configmap/settings -n apps --timeout=60s")
	}
	holds("9090")
	s.run(t, p, "kubectl get controllerrevisions --namespace apps", done, "NAME CONTROLLER REVISION AGE", "graph.kro.run/shop 1", "graph.kro.run/shop 2")
	s.run(t, p, "espalier rollback graph/shop --namespace apps", done, "Graph shop rolls back from revision 2 to 1")
	holds("8080")
	s.run(t, s.help(t, "rollback"), "espalier rollback graph/shop --namespace apps", done, "Graph shop rolls back from revision 3 to 2")
	holds("9090")
	s.run(t, p, "espalier rollback graph/shop --namespace apps --to 1", done, "Graph shop rolls back from revision 4 to 1")
	holds("8080")
	s.do(t, "kubectl delete graph shop -n apps")
}

// roles runs the commands of docs/graphs.md about service accounts. Its definition is another one of WebApps.
func roles(t *testing.T, s *shell) {
	p := page(t, "docs/graphs.md")
	s.run(t, p, "kubectl create namespace espalier-system", done)
	s.run(t, p, "kubectl create serviceaccount espalier-controllers --namespace espalier-system", done)
	created := func(names ...string) string {
		for i, name := range names {
			names[i] = strings.Replace(name, "/", ".rbac.authorization.k8s.io/", 1) + " created"
		}
		return strings.Join(names, "\n")
	}
	s.run(t, p, "espalier rbac --controllers --serviceaccount espalier-system:espalier-controllers | kubectl apply -f -", done, created("clusterrole/espalier-controllers",
		"clusterrolebinding/espalier-controllers", "role/espalier-controllers", "rolebinding/espalier-controllers"))

	s.do(t, "for name in platform team; do kubectl create namespace $name; done; kubectl create serviceaccount webapps -n platform")
	s.do(t, "kubectl apply -f definition.yaml && kubectl wait --for=condition=PermissionsGranted=false rgd/webapps --timeout=60s")
	s.run(t, p, `kubectl get rgd webapps -o jsonpath='{.status.conditions[?(@.type=="PermissionsGranted")].message}'`, done,
		"missing permissions; grant them with the roles and bindings that 'espalier rbac webapps", "system:serviceaccount:platform:webapps lacks: create, delete, get, list, patch and watch deployments.apps")
	s.run(t, p, "espalier rbac webapps | kubectl apply -f -", done, created("clusterrole/espalier:webapps", "clusterrolebinding/espalier:webapps", "clusterrole/espalier-controllers:webapps",
		"clusterrolebinding/espalier-controllers:webapps", "role/espalier-controllers:webapps", "rolebinding/espalier-controllers:webapps"))
	s.do(t, "kubectl wait --for=condition=PermissionsGranted rgd/webapps --timeout=60s")
	s.run(t, s.help(t, "rbac"), "espalier rbac -f definition.yaml", done, "name: espalier:webapps")

	s.do(t, "kubectl apply -f group.yaml")
	s.run(t, p, "espalier rbac webapps --namespace team --instance-namespace prod | kubectl apply -f -", done, created("role/espalier:team:webapps", "rolebinding/espalier:team:webapps",
		"role/espalier:team:webapps", "rolebinding/espalier:team:webapps"))
}
