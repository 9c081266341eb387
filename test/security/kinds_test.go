package security

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// shadows are definitions of kinds that would hide built-in ones, in every dialect.
var shadows = map[string]string{
	"ResourceGroup": `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: shadow, namespace: $NS}
spec:
  schema:
    group: rbac.authorization.k8s.io
    kind: RoleBinding
    plural: rolebindings
    apiVersion: v9
    metadata: {annotations: {api-approved.kubernetes.io: "unapproved, x"}}
  resources: []
`,
	"ResourceGraphDefinition": `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-shadow}
spec:
  schema: {group: apps, kind: Deployment, apiVersion: v9}
  resources: []
`,
	"annotations": `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-shadow}
spec:
  schema: {group: $GROUP, kind: Shadow, apiVersion: v1, metadata: {annotations: {api-approved.kubernetes.io: "unapproved, x"}}}
  resources: []
`,
	"CompositeResourceDefinition": `
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: customresourcedefinitions.apiextensions.k8s.io}
spec:
  group: apiextensions.k8s.io
  names: {kind: CustomResourceDefinition, plural: customresourcedefinitions}
  versions: [{name: v9, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}]
`,
}

// TestNoDefinitionHidesAKindOfKubernetes defines built-in kinds in a version that clients would prefer.
func TestNoDefinitionHidesAKindOfKubernetes(t *testing.T) {
	s := suite.New(t)
	author := user(t, s, "author", "", `[{apiGroups: [kro.run, apiextensions.crossplane.io], resources: ["*"], verbs: [create, get, patch]}]`)
	awaitPolicies(t, s, author, shadows["ResourceGroup"])
	for name, shadow := range shadows {
		if err := apply(t, s, author, shadow); err == nil || !strings.Contains(err.Error(), "Kubernetes") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAResourceGroupStaysInTheGroupsForIt defines a kind in the group of another product.
func TestAResourceGroupStaysInTheGroupsForIt(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: shadow, namespace: $NS}
spec:
  schema: {group: cert-manager.io, kind: Certificate, apiVersion: v9}
  resources: []
`)
	s.Await(t, suite.RG, s.NS, "shadow", suite.HasCondition("GraphAccepted", "False", "", "resourceGroups.apiGroups"))
	if s.Get(t, suite.CRD, "", "certificates.cert-manager.io") != nil {
		t.Error("the kind is served")
	}
}

var ingressClass = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "IngressClass"}

// TestAHiddenBuiltInKindIsComposedAllTheSame has an administrator hide a built-in kind by a CustomResourceDefinition of another
// version, and repair that.
func TestAHiddenBuiltInKindIsComposedAllTheSame(t *testing.T) {
	s := suite.New(t)
	s.Account(t, "classes")
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-classes}
spec:
  serviceAccount: {namespace: $NS, name: classes}
  schema: {group: $GROUP, kind: Class, apiVersion: v1alpha1, spec: {note: string}}
  resources:
    - id: class
      template:
        apiVersion: networking.k8s.io/v1
        kind: IngressClass
        metadata: {name: $ID-class, annotations: {note: "${schema.spec.note}"}}
        spec: {controller: example.com/none}
`)
	s.AwaitDefinitions(t, "classes")
	composes := func(note string) {
		t.Helper()
		s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Class\nmetadata: {name: x, namespace: $NS}\nspec: {note: "+note+"}\n")
		s.Await(t, ingressClass, "", s.Name("class"), suite.HasField(note, "metadata", "annotations", "note"))
		s.Await(t, s.Kind("Class"), s.NS, "x", suite.HasCondition("Ready", "True", ""))
	}
	composes("before")
	s.Apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ingressclasses.networking.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, a test"}}
spec:
  group: networking.k8s.io
  scope: Cluster
  names: {kind: IngressClass, plural: ingressclasses}
  versions: [{name: v9, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	s.Await(t, suite.CRD, "", "ingressclasses.networking.k8s.io", suite.HasCondition("Established", "True", ""))
	composes("hidden")
	s.Delete(t, suite.CRD, "", "ingressclasses.networking.k8s.io")
	s.AwaitGone(t, suite.CRD, "", "ingressclasses.networking.k8s.io")
	composes("repaired")
	s.Delete(t, s.Kind("Class"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Class"), s.NS, "x")
	s.AwaitGone(t, ingressClass, "", s.Name("class"))
}
