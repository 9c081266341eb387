package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testedExample is a definition with tests.
const testedExample = "../../../examples/tested"

func TestTheTestsOfTheExamplePass(t *testing.T) {
	t.Parallel()
	report := filepath.Join(t.TempDir(), "report.xml")
	code, stdout, stderr := call(t.Context(), "test", testedExample, "--junit", report)
	if code != exitDone || strings.Count(stdout, "ok    ") != 2 || !strings.Contains(stdout, "coverage: WebApp: 8 of 8 branches (100%)") {
		t.Errorf("code %d:\n%s%s", code, stdout, stderr)
	}
	if raw, err := os.ReadFile(report); err != nil || !strings.Contains(string(raw), `tests="2" failures="0"`) {
		t.Errorf("the report is %s, %v", raw, err)
	}
}

func TestAFailingTestSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testedExample)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "webapp.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.ReplaceAll(string(text), "port: 80", "port: 81")
	broken = strings.ReplaceAll(broken, "replicas: ${schema.spec.replicas}", "replicas: 3")
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "test", dir)
	for _, want := range []string{
		"FAIL  " + filepath.Join(dir, "public.test.yaml"), "created: Deployment default/shop: spec.replicas is 3, want 1",
		"expected: the result is another:", "-  - port: 80", "+  - port: 81",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if code != exitFailed || !strings.Contains(stderr, "2 of 2 tests failed") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if code, stdout, _ = call(t.Context(), "test", dir, "--update"); code != exitFailed || strings.Contains(stdout, "another") {
		t.Errorf("with --update only the expectation in the test fails; code %d:\n%s", code, stdout)
	}
}

// TestAStepCannotDeleteWhatDoesNotExist has a misspelled name: a test that passes with it tests nothing.
func TestAStepCannotDeleteWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = `
apiVersion: test.espalier.dev/v1alpha1
kind: Test
metadata: {name: a typo}
steps:
- apply: [{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}}]
- delete: [{apiVersion: v1, kind: ConfigMap, metadata: {name: shp}}, {apiVersion: example.org/v1, kind: Thing, metadata: {name: shop}}]
  absent: [{apiVersion: v1, kind: ConfigMap, metadata: {name: shp}}]
`
	if err := os.WriteFile(filepath.Join(dir, "a.test.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "test", dir)
	for _, want := range []string{"step 2: ConfigMap default/shp: does not exist and cannot be deleted", "step 2: Thing shop: does not exist and cannot be deleted"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if code != exitFailed {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestWithoutTestsThereIsAnError(t *testing.T) {
	t.Parallel()
	code, _, stderr := call(t.Context(), "test", t.TempDir())
	if code != exitFailed || !strings.Contains(stderr, "there are no files that end in .test.yaml") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

const shop = "apiVersion: kro.run/v1alpha1\nkind: WebApp\nmetadata: {name: shop}\nspec: {image: nginx}\n"

func TestRenderPrintsWhatInstancesConsistOf(t *testing.T) {
	t.Parallel()
	instance := filepath.Join(t.TempDir(), "shop.yaml")
	observed := "---\napiVersion: v1\nkind: Service\nmetadata: {name: shop}\nspec: {clusterIP: 10.0.0.7}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: besides}\n"
	if err := os.WriteFile(instance, []byte(shop+observed), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "render", "-f", filepath.Join(testedExample, "webapp.yaml"), "-f", instance)
	for _, want := range []string{"# WebApp default/shop\n", "# ingress: left out", "kind: Deployment", "clusterIP: 10.0.0.7", "  url: http://10.0.0.7\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if code != exitDone || strings.Contains(stdout, "besides") {
		t.Errorf("code %d: %s\n%s", code, stderr, stdout)
	}
}

// TestRenderKnowsFurtherKinds has a definition whose resources are of a kind of another definition, and of one that a CustomResourceDefinition defines.
func TestRenderKnowsFurtherKinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	site, kinds := filepath.Join(dir, "site.yaml"), filepath.Join(dir, "kinds.yaml")
	for file, text := range map[string]string{site: `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site}
spec:
  schema: {apiVersion: v1alpha1, kind: Site, spec: {size: integer}}
  resources:
  - {id: network, template: {apiVersion: kro.run/v1alpha1, kind: Network, metadata: {name: net}, spec: {width: "${schema.spec.size}"}}}
  - {id: widget, template: {apiVersion: example.org/v1, kind: Widget, metadata: {name: w}, spec: {size: "${schema.spec.size}"}}}
---
{apiVersion: kro.run/v1alpha1, kind: Site, metadata: {name: shop}, spec: {size: 3}}
`, kinds: `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: network}
spec:
  schema: {apiVersion: v1alpha1, kind: Network, spec: {width: integer}}
  resources:
  - {id: config, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
---
{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: site}, spec: {schema: {apiVersion: v1alpha1, kind: Site, spec: {}}, resources: []}}
`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := call(t.Context(), "render", "-f", site, "--kinds", kinds)
	for _, want := range []string{"kind: Network\n", "width: 3\n", "kind: Widget\n", "size: 3\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "kind: ConfigMap") || strings.Contains(stderr, "no matches") {
		t.Errorf("code %d: %s\n%s", code, stderr, stdout)
	}
}

// TestOfflineCommandsDropNamespacesOfClusterScopedObjects has a definition as kustomize writes it, and a test whose objects have such
// namespaces too.
func TestOfflineCommandsDropNamespacesOfClusterScopedObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const definition = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: roles, namespace: default}\nspec:\n" +
		"  schema: {apiVersion: v1alpha1, kind: Reader, scope: Cluster}\n" +
		"  resources: [{id: role, template: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: \"${schema.metadata.name}\"}}}]\n"
	const instance = "apiVersion: kro.run/v1alpha1\nkind: Reader\nmetadata: {name: one, namespace: elsewhere}\n"
	const test = `
apiVersion: test.espalier.dev/v1alpha1
kind: Test
metadata: {name: namespaces}
files: [roles.yaml]
steps:
- observe: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: one, namespace: default, labels: {seen: "yes"}}}]
  expect: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: one, namespace: default, labels: {seen: "yes"}}}]
  absent: [{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}]
`
	for name, text := range map[string]string{"roles.yaml": definition + "---\n" + instance, "roles.test.yaml": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "roles.yaml")
	for _, args := range [][]string{{"render", "-f", file}, {"test", dir}} {
		code, stdout, stderr := call(t.Context(), args...)
		if code != exitDone || strings.Contains(stdout, "namespace:") {
			t.Errorf("%q: code %d:\n%s%s", args, code, stdout, stderr)
		}
		for _, want := range []string{
			file + ":3:36: warning: metadata.namespace is dropped by the API server: ResourceGraphDefinition is cluster-scoped\n",
			file + ":10:34: warning: metadata.namespace is dropped by the API server: Reader is cluster-scoped\n",
		} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%q: there is no %q in\n%s", args, want, stderr)
			}
		}
	}
}

// TestRenderObservesWhatWaitsForOthers has an instance that creates its Deployment only once the file's Secret exists, and its ConfigMap once
// the Deployment has the status of the file: neither may be taken for an object besides the instance.
func TestRenderObservesWhatWaitsForOthers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "site.yaml")
	const site = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site}
spec:
  schema: {apiVersion: v1alpha1, kind: Site, spec: {name: string}, status: {up: "${web.status.availableReplicas}", note: "${note.data.seen}"}}
  resources:
  - {id: key, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: key}}}
  - {id: web, readyWhen: ["${web.status.availableReplicas > 0}"], template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: "${schema.metadata.name}"}, spec: {
      selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: "${key.data.image}"}]}}}}}
  - {id: note, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${web.metadata.name}"}, data: {up: "${string(web.status.availableReplicas)}"}}}
---
{apiVersion: kro.run/v1alpha1, kind: Site, metadata: {name: shop}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: shop}, status: {availableReplicas: 3}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}, data: {seen: yesterday}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: key}, data: {image: nginx}}
`
	if err := os.WriteFile(file, []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "render", "-f", file)
	for _, want := range []string{"image: nginx", "  up: 3\n", "  up: \"3\"\n", "note: yesterday", "state: ACTIVE"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if code != exitDone {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// TestRenderReportsWhatNoInstanceConsistsOf has an observed Deployment that cannot be created as it is.
func TestRenderReportsWhatNoInstanceConsistsOf(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "site.yaml")
	const site = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site}
spec:
  schema: {apiVersion: v1alpha1, kind: Site, spec: {}}
  resources:
  - {id: config, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: shop}}}
---
{apiVersion: kro.run/v1alpha1, kind: Site, metadata: {name: shop}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: other}, status: {availableReplicas: 3}}
`
	if err := os.WriteFile(file, []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := call(t.Context(), "render", "-f", file)
	if code == exitDone || !strings.Contains(stderr, "Deployment default/other: Refused") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// TestBuiltInFunctionsOfFiles has a pipeline as users of Crossplane write it, with Functions for their packages.
func TestBuiltInFunctionsOfFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "app.yaml")
	const app = `
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: apps.field.example.org}
spec:
  scope: Namespaced
  group: field.example.org
  names: {kind: App, plural: apps}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {name: {type: string}}}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: crossplane-contrib-function-kro}
spec: {package: "registry.example.org/crossplane-contrib/function-kro:v0.3.0"}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: templates}
spec: {package: "registry.example.org/crossplane-contrib/function-go-templating:v0.11.0"}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: app}
spec:
  compositeTypeRef: {apiVersion: field.example.org/v1, kind: App}
  mode: Pipeline
  pipeline:
  - step: graph
    functionRef: {name: crossplane-contrib-function-kro}
    input:
      apiVersion: kro.fn.crossplane.io/v1alpha1
      kind: ResourceGraph
      status: {name: "${cm.metadata.name}"}
      resources:
      - id: cm
        template: {apiVersion: v1, kind: ConfigMap, metadata: {labels: {app: "${schema.metadata.name}"}}, data: {image: "${schema.spec.image}"}}
  - step: read
    functionRef: {name: function-extra-resources}
    input:
      apiVersion: extra-resources.fn.crossplane.io/v1beta1
      kind: Input
      spec: {extraResources: [{into: prices, apiVersion: v1, kind: ConfigMap, namespace: default, ref: {name: prices}}]}
  - step: templates
    functionRef: {name: templates}
    input:
      apiVersion: gotemplating.fn.crossplane.io/v1beta1
      kind: GoTemplate
      source: Inline
      inline:
        template: |
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: menu, annotations: { {{ setResourceNameAnnotation "menu" }} }}
          data: {bread: {{ (index (index .context "apiextensions.crossplane.io/extra-resources" "prices") 0).data.bread | quote }}}
  - step: order
    functionRef: {name: function-sequencer}
    input:
      apiVersion: sequencer.fn.crossplane.io/v1beta1
      kind: Input
      rules: [{sequence: [never, menu], condition: observed.composite.resource.spec.image == 'none'}]
  - {step: ready, functionRef: {name: function-auto-ready}}
---
{apiVersion: field.example.org/v1, kind: App, metadata: {name: app, namespace: default}, spec: {image: nginx}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: prices, namespace: default}, data: {bread: "3"}}
`
	if err := os.WriteFile(file, []byte(app), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := call(t.Context(), "validate", "-f", file); code != exitDone || stdout != "" {
		t.Errorf("validate: code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr := call(t.Context(), "render", "-f", file)
	for _, want := range []string{"  image: nginx\n", "  bread: \"3\"\n", "  name: app-", "reason: Available\n", "type: GraphResolved\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if code != exitDone {
		t.Errorf("render: code %d: %s", code, stderr)
	}
}

// TestRenderReadsStringDataAsData has a Secret of the file in plain text, which the API server stores as data.
func TestRenderReadsStringDataAsData(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "site.yaml")
	const site = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site}
spec:
  schema: {apiVersion: v1alpha1, kind: Site, spec: {}}
  resources:
  - {id: login, externalRef: {apiVersion: v1, kind: Secret, metadata: {name: login}}}
  - {id: copy, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy}, data: {user: "${string(login.data.user)}", host: "${string(login.data.host)}"}}}
---
{apiVersion: kro.run/v1alpha1, kind: Site, metadata: {name: shop}}
---
{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {user: admin}, data: {user: bm9ib2R5, host: ZGI=}}
`
	if err := os.WriteFile(file, []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "render", "-f", file, "--secret-outputs=Warn")
	for _, want := range []string{"user: admin", "host: db"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if code != exitDone {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// TestRenderRefusesWhatTheAPIServerRefuses renders labels and a CustomResourceDefinition that no API server stores.
func TestRenderRefusesWhatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	const definition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: owned}
spec:
  schema: {apiVersion: v1alpha1, kind: Owned, spec: {owner: string, size: 'integer | validation="RULE"'}}
  resources:
  - {id: config, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}", labels: {owner: "${schema.spec.owner}"}}}}
---
{apiVersion: kro.run/v1alpha1, kind: Owned, metadata: {name: a}, spec: {owner: OWNER}}
`
	for name, tc := range map[string]struct {
		rule, owner string
		code        int
		want        string
	}{
		"a valid one":           {"self > 1", "team", exitDone, ""},
		"an invalid label":      {"self > 1", "the team", exitFailed, "Owned default/a: Rejected: config: ConfigMap \"a\" is invalid: metadata.labels"},
		"a rule that isn't CEL": {"self > one", "team", exitFailed, "undeclared reference to 'one'"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "owned.yaml")
			if err := os.WriteFile(file, []byte(strings.NewReplacer("RULE", tc.rule, "OWNER", tc.owner).Replace(definition)), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := call(t.Context(), "render", "-f", file); code != tc.code || !strings.Contains(stderr, tc.want) {
				t.Errorf("code %d: %s", code, stderr)
			}
		})
	}
}

func TestRenderRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(file, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no files":      {[]string{"render"}, exitUsage, "render takes files"},
		"a format":      {[]string{"render", "-f", file, "-o", "xml"}, exitUsage, "--output is yaml or json"},
		"no time":       {[]string{"render", "-f", file, "--wait", "0s"}, exitUsage, "--wait must be longer than 0"},
		"no definition": {[]string{"render", "-f", file}, exitFailed, "there is no kind WebApp in kro.run/v1alpha1, nor do the files define it"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := call(t.Context(), tc.args...)
			if code != tc.code || !strings.Contains(stderr, tc.want) {
				t.Errorf("code %d: %s", code, stderr)
			}
		})
	}
}

func TestFuzzFindsInstancesThatFail(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ratio.yaml")
	const ratio = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: ratio}
spec:
  schema: {apiVersion: v1alpha1, kind: Ratio, spec: {parts: "integer | required=true minimum=0", names: "[]string | default=[]"}}
  resources:
  - {id: share, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {share: "${string(100 / schema.spec.parts)}"}}}
  - {id: first, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-first"}, data: {name: "${schema.spec.names[0]}"}}}
`
	if err := os.WriteFile(file, []byte(ratio), 0o600); err != nil {
		t.Fatal(err)
	}
	var before string
	for range 2 {
		code, stdout, stderr := call(t.Context(), "test", "--fuzz", "20", "-f", file)
		if code != exitFailed || !strings.Contains(stderr, "2 problems in 20 instances with seed 1") || !strings.Contains(stdout, "division by zero") || !strings.Contains(stdout, "schema.spec.names[0]") {
			t.Errorf("code %d: %s\n%s", code, stderr, stdout)
		}
		if before != "" && before != stdout {
			t.Errorf("the same seed gives another result:\n%s\n%s", before, stdout)
		}
		before = stdout
	}
	good := filepath.Join(testedExample, "webapp.yaml")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--fuzz", "3", "-f", good}, exitDone, "no problems in 3 instances"},
		{[]string{"--fuzz", "3"}, exitUsage, "--fuzz takes files"},
		{[]string{"--fuzz", "-3", "-f", good}, exitUsage, "--fuzz must be from 1 to 10000"},
		{[]string{"--fuzz", "3", "-f", good, testedExample}, exitUsage, "no directories"},
		{nil, exitUsage, "test takes directories"},
	} {
		if code, _, stderr := call(t.Context(), append([]string{"test"}, tc.args...)...); code != tc.code || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: code %d: %s", tc.args, code, stderr)
		}
	}
}

func TestWhatTestsDoNotReachIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testedExample)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "public.test.yaml")); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "test", dir)
	for _, want := range []string{
		"coverage: WebApp: 4 of 8 branches (50%)", "never reached: ingress never exists", "never reached: region never exists",
		"never reached: spec.schema.status.url: schema.spec.public is never true",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("there is no %q in\n%s", want, stdout)
		}
	}
	if code != exitDone {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// TestRenderConvertsInstances has an instance in a version of which the fields differ from those of the version that the graph reads.
func TestRenderConvertsInstances(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "app.yaml")
	const app = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: apps}
spec:
  schema:
    apiVersion: v1
    kind: App
    spec: {replicas: integer}
    versions:
    - name: v1alpha1
      spec: {size: string}
      conversion:
        to: {spec: {replicas: '${self.spec.?size.orValue("") == "large" ? 5 : 1}'}}
        from: {spec: {size: '${self.spec.?replicas.orValue(1) > 3 ? "large" : "small"}'}}
  resources:
  - {id: config, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {replicas: "${string(schema.spec.replicas)}"}}}
---
apiVersion: kro.run/v1alpha1
kind: App
metadata: {name: shop}
spec: {size: large}
`
	if err := os.WriteFile(file, []byte(app), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t.Context(), "render", "-f", file)
	if code != exitDone || !strings.Contains(stdout, "  replicas: \"5\"\n") || strings.Contains(stdout, "size:") {
		t.Errorf("code %d: %s\n%s", code, stderr, stdout)
	}
}
