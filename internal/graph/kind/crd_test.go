package kind_test

import (
	"reflect"
	"testing"

	"github.com/espalier-dev/espalier/internal/object"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

type (
	props  = map[string]apiextensionsv1.JSONSchemaProps
	column = apiextensionsv1.CustomResourceColumnDefinition
)

func objectOf(fields props) *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: fields}
}

func list(item apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

// of makes the CustomResourceDefinition of a kind with the given fields.
func of(spec, status props, change ...func(*graph.Graph)) *apiextensionsv1.CustomResourceDefinition {
	g := &graph.Graph{
		Kind:       schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Vpc"},
		Namespaced: true, Spec: objectOf(spec), Status: objectOf(status),
	}
	for _, c := range change {
		c(g)
	}
	return kind.For(g, &v1alpha1.Schema{}, object.Definition{Name: "vpc", UID: "d-1"}, kind.Options{Version: "v1"})
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"Vpc":               "vpcs.kro.run",
		"EksCluster":        "eksclusters.kro.run",
		"EksClusterWithVpc": "eksclusterwithvpcs.kro.run",
		"Policy":            "policies.kro.run",
		"Gateway":           "gateways.kro.run",
		"Ingress":           "ingresses.kro.run",
		"Bus":               "buses.kro.run",
		"Database":          "databases.kro.run",
		"Series":            "series.kro.run",
	} {
		if got := kind.Name("kro.run", name); got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
		c := of(nil, nil, func(g *graph.Graph) { g.Kind.Kind = name })
		if c.Name != want || c.Spec.Names.Plural+"."+c.Spec.Group != want {
			t.Errorf("%s: the definition is %s and serves %s", name, c.Name, c.Spec.Names.Plural)
		}
	}
}

func TestScope(t *testing.T) {
	if got := of(nil, nil).Spec.Scope; got != apiextensionsv1.NamespaceScoped {
		t.Errorf("got %s", got)
	}
	if got := of(nil, nil, func(g *graph.Graph) { g.Namespaced = false }).Spec.Scope; got != apiextensionsv1.ClusterScoped {
		t.Errorf("got %s", got)
	}
}

func TestOwnerLabels(t *testing.T) {
	group := object.Definition{Name: "vpc", Namespace: "team", UID: "d-1"}
	g := &graph.Graph{Kind: schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "Vpc"}}
	metadata := &v1alpha1.CRDMetadata{Labels: map[string]string{"team": "web", v1alpha1.OwnedLabel: "false"}, Annotations: map[string]string{"a": "b"}}
	c := kind.For(g, &v1alpha1.Schema{Metadata: metadata}, group, kind.Options{Version: "v1+x"})
	want := map[string]string{
		"team": "web", "kro.run/owned": "true", "kro.run/kro-version": "v1-x", "kro.run/resource-graph-definition-id": "d-1",
		"kro.run/resource-graph-definition-name": "vpc", "kro.run/resource-graph-definition-namespace": "team",
	}
	if diff := cmp.Diff(want, c.Labels); diff != "" {
		t.Errorf("the author's labels can't hide ours (-want +got):\n%s", diff)
	}
	cases := map[string]struct {
		definition object.Definition
		want       bool
	}{
		"It belongs to its definition":                   {group, true},
		"And to another incarnation of it":               {object.Definition{Name: "vpc", Namespace: "team", UID: "d-2"}, true},
		"Not to one of the name in another namespace":    {object.Definition{Name: "vpc", Namespace: "other", UID: "d-1"}, false},
		"Not to the other spelling's definition":         {object.Definition{Name: "vpc", UID: "d-1"}, false},
		"Not to a definition of another name in it":      {object.Definition{Name: "vpc2", Namespace: "team"}, false},
		"Not to anybody of whom the label could be both": {object.Definition{}, false},
	}
	for name, tc := range cases {
		if got := crd.BelongsTo(c, tc.definition); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if _, owned := crd.Owner(&apiextensionsv1.CustomResourceDefinition{}); owned {
		t.Error("what nobody marked belongs to somebody")
	}
}

func TestTheAuthorMaySetThePlural(t *testing.T) {
	g := &graph.Graph{Kind: schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "PodInfo"}}
	s := &v1alpha1.Schema{Kind: "PodInfo", Plural: "podinfos"}
	c := kind.For(g, s, object.Definition{Name: "info"}, kind.Options{Version: "v1"})
	if c.Name != "podinfos.kro.run" || c.Spec.Names.Plural != "podinfos" || kind.NameOf(s) != c.Name {
		t.Errorf("%s serves %s; by its schema it would be %s", c.Name, c.Spec.Names.Plural, kind.NameOf(s))
	}
}

func TestNamesOfInstancesAreValidatedInEveryVersion(t *testing.T) {
	most := int64(30)
	c := of(nil, nil, func(g *graph.Graph) {
		g.Name = &apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: &most}
		g.Versions = []graph.Version{{Name: "v1", Served: true, Spec: objectOf(nil), Identical: true}}
	})
	for _, v := range c.Spec.Versions {
		if name := v.Schema.OpenAPIV3Schema.Properties["metadata"].Properties["name"]; name.MaxLength == nil || *name.MaxLength != most {
			t.Errorf("%s has %+v", v.Name, name)
		}
	}
}

func TestAuthorsCannotSetOwnerLabels(t *testing.T) {
	owner := object.Definition{Name: "vpc", UID: "d-1"}
	g := &graph.Graph{Kind: schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "Vpc"}}
	metadata := &v1alpha1.CRDMetadata{Labels: map[string]string{
		"team": "web", v1alpha1.DefinitionNSLabel: "other", v1alpha1.NodeIDLabel: "x", v1alpha1.ApplySetPartOfLabel: "applyset-x-v1",
	}}
	c := kind.For(g, &v1alpha1.Schema{Metadata: metadata}, owner, kind.Options{Version: "v1"})
	want := map[string]string{
		"team": "web", "kro.run/owned": "true", "kro.run/kro-version": "v1",
		"kro.run/resource-graph-definition-id": "d-1", "kro.run/resource-graph-definition-name": "vpc",
	}
	if diff := cmp.Diff(want, c.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if !crd.BelongsTo(c, owner) {
		t.Error("it isn't its definition's any more")
	}
}

func TestColumns(t *testing.T) {
	g := &graph.Graph{Kind: schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "Vpc"}, StatusFields: report.UndeclaredFields(nil)}
	own := []column{{Name: "Team", Type: "string", JSONPath: ".spec.team"}}
	cases := map[string]struct {
		schema v1alpha1.Schema
		more   bool
		want   []string
	}{
		"The author's replace the default":         {v1alpha1.Schema{AdditionalPrinterColumns: own}, false, []string{"Team"}},
		"The author's replace more as well":        {v1alpha1.Schema{AdditionalPrinterColumns: own}, true, []string{"Team"}},
		"By default state, readiness, age":         {v1alpha1.Schema{}, false, []string{"State", "Ready", "Age"}},
		"With more also progress, reason, message": {v1alpha1.Schema{}, true, []string{"State", "Ready", "Removed", "Reason", "Message", "Age"}},
	}
	for name, tc := range cases {
		var got []string
		for _, c := range kind.For(g, &tc.schema, object.Definition{Name: "vpc"}, kind.Options{Version: "v1", AdditionalPrinterColumns: tc.more}).Spec.Versions[0].AdditionalPrinterColumns {
			got = append(got, c.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheStatusSchemaHasTheEnginesFields(t *testing.T) {
	author := objectOf(props{"id": {Type: "string"}})
	before := author.DeepCopy()
	c := of(nil, nil, func(g *graph.Graph) { g.Status = author })
	if got := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]; !reflect.DeepEqual(got, report.Schema(author)) {
		t.Errorf("got %v", got)
	}
	if diff := cmp.Diff(before, author); diff != "" {
		t.Errorf("the graph has changed:\n%s", diff)
	}
}

func TestEstablished(t *testing.T) {
	with := func(conditions ...apiextensionsv1.CustomResourceDefinitionCondition) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: conditions}}
	}
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}
	established := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}
	if crd.IsEstablished(with()) || crd.IsEstablished(with(accepted)) || !crd.IsEstablished(with(accepted, established)) {
		t.Error("a kind is served once it is established")
	}
}
