package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestRolesOfTheControllers prints the roles of controllers that run with a webhook.
func TestRolesOfTheControllers(t *testing.T) {
	var out, errs bytes.Buffer
	arguments := []string{"rbac", "--controllers", "--serviceaccount", "espalier-system:espalier", "--webhook"}
	if code := Main(t.Context(), arguments, &out, &errs); code != exitDone || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	golden.Compare(t, "testdata/rbac-controllers.yaml", out.String())
}

// TestInstallationsReadAllLeases prints what the chart grants with controllers.shards: each installation has a Lease of its own,
// whose name depends on its flags, and reads those of the others.
func TestInstallationsReadAllLeases(t *testing.T) {
	for flag, want := range map[string][]string{"--webhook": {"create", "list"}, "--watch-namespaces=team-a": {"create", "get", "list", "update"}} {
		var out, errs bytes.Buffer
		arguments := []string{"rbac", "--controllers", "--serviceaccount", "espalier-system:espalier", flag}
		if code := Main(t.Context(), arguments, &out, &errs); code != exitDone || errs.Len() > 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		var verbs []string
		for document := range strings.SplitSeq(out.String(), "---\n") {
			var role rbacv1.Role
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "leases") && len(rule.ResourceNames) == 0 {
					verbs = append(verbs, rule.Verbs...)
				}
			}
		}
		slices.Sort(verbs)
		if diff := cmp.Diff(want, verbs); diff != "" {
			t.Errorf("%s: verbs for all Leases (-want +got):\n%s", flag, diff)
		}
	}
}

func TestRBACArguments(t *testing.T) {
	cases := map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"No argument":                           {nil, exitUsage, "takes the name of a definition"},
		"--controllers and a definition":        {[]string{"--controllers", "webapps"}, exitUsage, "takes no definition"},
		"--user and --serviceaccount":           {[]string{"--controllers", "--user", "a", "--serviceaccount", "b:c"}, exitUsage, "exclude each other"},
		"A service account without a namespace": {[]string{"--controllers", "--serviceaccount", "espalier"}, exitUsage, "must be NAMESPACE:NAME, not espalier"},
		"No subject":                            {[]string{"--controllers"}, exitDone, "printed no binding for the controllers"},
		"A user":                                {[]string{"--controllers", "--user", "jane"}, exitDone, ""},
		"The first of two files does not exist": {[]string{"-f", "missing.yaml", "-f", "rbac.go"}, exitFailed, "missing.yaml"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := Main(t.Context(), append([]string{"rbac"}, tc.arguments...), &out, &errs); code != tc.code {
				t.Errorf("exit code %d", code)
			}
			if got := errs.String(); !strings.Contains(got, tc.says) || tc.says == "" && got != "" {
				t.Errorf("got %q", got)
			}
			if bound := strings.Contains(out.String(), "kind: ClusterRoleBinding"); bound != (tc.code == exitDone && tc.says == "") {
				t.Errorf("a binding is printed: %t", bound)
			}
		})
	}
}

func TestKindsOfTheCatalogHavePermissionsBeforeTheyAreServed(t *testing.T) {
	cases := map[string]struct {
		of   schema.GroupVersionKind
		want graph.Served
		ok   bool
	}{
		"Namespaced":       {schema.GroupVersionKind{Group: "ec2.aws.espalier.dev", Version: "v1alpha1", Kind: "VPC"}, graph.Served{Resource: "vpcs"}, true},
		"ClusterScoped":    {schema.GroupVersionKind{Group: "ec2.aws.espalier.dev", Version: "v1alpha1", Kind: "ClusterVPC"}, graph.Served{Resource: "clustervpcs", ClusterScoped: true}, true},
		"OfAnotherVersion": {schema.GroupVersionKind{Group: "ec2.aws.espalier.dev", Version: "v1", Kind: "VPC"}, graph.Served{}, false},
		"OfNoType":         {schema.GroupVersionKind{Group: "ec2.aws.espalier.dev", Version: "v1alpha1", Kind: "Vpx"}, graph.Served{}, false},
		"OfAnotherGroup":   {schema.GroupVersionKind{Group: "cache.example.org", Version: "v1alpha1", Kind: "VPC"}, graph.Served{}, false},
	}
	for name, tc := range cases {
		if got, ok := servedByCatalog(tc.of); got != tc.want || ok != tc.ok {
			t.Errorf("%s: got %v, %t", name, got, ok)
		}
	}
}

func TestOnlyAValidGraphDefinitionHasRoles(t *testing.T) {
	const valid = "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: webapps}, spec: {schema: {apiVersion: v1alpha1, kind: WebApp}}}\n"
	cases := map[string]struct{ text, want string }{
		"A graph definition": {valid, ""},
		"A graph definition among other objects": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}\n---\n" + valid, "",
		},
		"Another kind": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
			"stdin has no ResourceGraphDefinition or ResourceGroup",
		},
		"Nothing": {"", "stdin has no ResourceGraphDefinition or ResourceGroup"},
		"Two definitions": {
			valid + "---\n" + strings.ReplaceAll(strings.ReplaceAll(valid, "webapps", "shops"), "WebApp", "Shop"),
			"stdin has several definitions; give one: ResourceGraphDefinition webapps, ResourceGraphDefinition shops",
		},
		"A definition of no schema": {
			"{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: webapps}, spec: {}}",
			"stdin is not valid:\nstdin:1:90: error: spec.schema: is required",
		},
		"Unknown fields": {
			"apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: webapps}\nspec:\n" +
				"  schema: {apiVersion: v1alpha1, kind: WebApp, knd: WebApp}\n  servicAccount: {name: web}\n",
			"stdin is not valid:\nstdin:5:53: error: spec.schema.knd: there is no such field; did you mean \"kind\"?\n" +
				"stdin:6:3: error: spec.servicAccount: there is no such field; did you mean \"serviceAccount\"?",
		},
		"A kind that only the cluster has": {
			strings.Replace(valid, "WebApp}", "WebApp}, resources: [{id: new, template: {apiVersion: example.com/v1, kind: FromTheCluster, metadata: {name: a}, spec: {a: 1}}}]", 1), "",
		},
		"A field that is set twice": {
			valid + "---\napiVersion: v1\nkind: ConfigMap\nkind: Secret\nmetadata: {name: web}\n",
			"stdin is not valid:\nstdin:5:1: error: the key \"kind\" is already in line 4",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			served := func(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
				return object.KindInfo{}, gvk.Kind == "FromTheCluster"
			}
			if _, err := definitionIn("stdin", "default", []*workspace.File{workspace.NewFile("stdin", tc.text)}, served); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSubjectsOfADefinitionsRoles prints the roles of definitions with and without an
// account, in a namespace and in none.
func TestSubjectsOfADefinitionsRoles(t *testing.T) {
	permissions := graph.Permissions{
		Instances:   append(rbac.PermissionsFor("example.com", "sites", "get", "patch"), rbac.PermissionsFor("", "configmaps", "create")...),
		Controllers: rbac.PermissionsFor("example.com", "sites", "list", "watch"),
	}
	controllers := []rbacv1.Subject{rbac.ServiceAccount("espalier-system", "espalier")}
	var out strings.Builder
	for _, of := range []struct {
		name, namespace string
		account         *v1alpha1.ServiceAccount
		to              []rbacv1.Subject
	}{
		{"the controllers", "", nil, controllers},
		{"controllers that aren't known", "", nil, nil},
		{"an account", "", &v1alpha1.ServiceAccount{Namespace: "platform", Name: "builder"}, controllers},
		{"the default account of the definition's namespace", "team", nil, controllers},
		{"an account of the definition's namespace", "team", &v1alpha1.ServiceAccount{Name: "builder"}, controllers},
	} {
		d := &v1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: "sites"}}
		d.Spec.ServiceAccount = of.account
		out.WriteString("## " + of.name + "\n")
		for _, o := range rolesFor(d, permissions, of.to) {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("---\n" + string(text))
		}
	}
	golden.Compare(t, "testdata/rbac-definitions.txt", out.String())
}

// TestTheRoleOfComposites is what files with a definition and its composition need: reconciling both kinds, and the kinds of
// the resources that a built-in function composes.
func TestTheRoleOfComposites(t *testing.T) {
	const text = `
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: xstores.example.org}
spec:
  group: example.org
  names: {kind: XStore, plural: xstores}
  claimNames: {kind: Store, plural: stores}
  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: store}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: XStore}
  mode: Pipeline
  pipeline:
  - step: own
    functionRef: {name: function-own}
  - step: templates
    functionRef: {name: function-go-templating}
    input: {apiVersion: gotemplating.fn.crossplane.io/v1beta1, kind: GoTemplate, source: Inline, inline: {template: "{{ .observed }}"}}
  - step: compose
    functionRef: {name: compose}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - {name: web, readinessChecks: [{type: None}], base: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: stores}}}
      - {name: missing, readinessChecks: [{type: None}], base: {apiVersion: cache.example.org/v1, kind: Cache}}
      - {name: inner, readinessChecks: [{type: None}], base: {apiVersion: example.org/v1, kind: XStore, spec: {}}}
`
	served := func(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
		return object.KindInfo{Namespaced: true}, gvk.Group == ""
	}
	const named = `{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: compose}, spec: {package: registry.example.org/crossplane-contrib/function-patch-and-transform:v1}}`
	composed, err := composingIn("composition.yaml", []*workspace.File{workspace.NewFile("composition.yaml", text), workspace.NewFile("functions.yaml", named)}, served)
	if err != nil || composed == nil {
		t.Fatal(err)
	}
	role, notes, err := composed.role(func(gvk schema.GroupVersionKind) (string, error) {
		if gvk.Group != "" {
			return "", &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}
		}
		return "configmaps", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	printed, err := yaml.Marshal(role)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/rbac-composed.yaml", string(printed))
	want := []string{
		`no matches for kind "Cache" in version "cache.example.org/v1"; its permissions are left out`,
		"step own of Composition store calls function-own, which is not built in: add a rule for each kind that it composes",
		"step templates of Composition store calls function-go-templating, whose input does not list what it composes: add a rule for each kind",
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Error(diff)
	}
}

func TestConnectionDetailsNeedSecrets(t *testing.T) {
	resource := func(fields map[string]any) map[string]any { return map[string]any{"resources": []any{fields}} }
	for name, tc := range map[string]struct {
		input map[string]any
		want  bool
	}{
		"No input":                           {nil, false},
		"A resource without details":         {resource(map[string]any{"name": "a"}), false},
		"A resource with an empty list":      {resource(map[string]any{"connectionDetails": []any{}}), false},
		"A resource with connection details": {resource(map[string]any{"connectionDetails": []any{map[string]any{"name": "password"}}}), true},
	} {
		if got := hasConnectionDetails(tc.input); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
