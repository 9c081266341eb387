package simulation

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func TestMoreColumnsAreThoseThatEspalierHasAdded(t *testing.T) {
	more := report.PrinterColumns(report.FieldSet{Deletion: true})
	for name, tc := range map[string]struct {
		applied bool
		columns []apiextensionsv1.CustomResourceColumnDefinition
		want    bool
	}{
		"a kind with them":                     {true, more, true},
		"a kind without a column of deletions": {true, report.PrinterColumns(report.FieldSet{}), true},
		"a kind without them":                  {true, more[:1], false},
		"another program's kind":               {false, more, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &apiextensionsv1.CustomResourceDefinition{}
			if tc.applied {
				c.Annotations = map[string]string{v1alpha1.AppliedAnnotation: "x"}
			}
			c.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", AdditionalPrinterColumns: tc.columns}}
			if got := hasMoreColumns(c); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

const columnKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.kro.run, annotations: {espalier.dev/applied: x}}
spec:
  group: kro.run
  names: {kind: App, plural: apps}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Reason, type: string, priority: 1, jsonPath: '.status.conditions[?(@.type=="Ready")].reason', description: Reason of the condition Ready}
    - {name: Message, type: string, priority: 1, jsonPath: '.status.conditions[?(@.type=="Ready")].message', description: Why it isn't ready}
`

const plainKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: holds.espalier.dev}
spec: {group: espalier.dev, names: {kind: Hold, plural: holds}, scope: Cluster, versions: [{name: v1alpha1, served: true, storage: true}]}
`

func TestMoreColumnsAreReadFromTheCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []string
		want    bool
	}{
		"no kind has them": {[]string{plainKind}, false},
		"a kind has them":  {[]string{plainKind, columnKind}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := dynamic.NewForConfig(fakekube.New(tc.objects...).Config())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ServesMoreColumns(t.Context(), client); err != nil || got != tc.want {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}
