package backup

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

// namespaces are the namespaces of a control plane.
const namespaces = `
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: plane-1}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: prod, labels: {team: web}}, spec: {finalizers: [kubernetes]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: dev}}`

// crds are the CustomResourceDefinitions of Apps, which a graph defines, of Databases, which a
// provider serves, and of its ProviderConfigs.
const crds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.kro.run, labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: apps}}
spec: {group: kro.run, scope: Namespaced, names: {kind: App, plural: apps}, versions: [{name: v1alpha1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.cloud.example.org}
spec:
  group: cloud.example.org
  scope: Namespaced
  names: {kind: Database, plural: databases, categories: [managed]}
  versions: [{name: v1beta1, served: true, storage: false}, {name: v1, served: true, storage: true}]
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: providerconfigs.cloud.example.org}
spec: {group: cloud.example.org, scope: Namespaced, names: {kind: ProviderConfig, plural: providerconfigs}, versions: [{name: v1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec: {group: example.org, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true}]}`

// otherProvider are the kinds of a provider that no definition uses, with a configuration.
const otherProvider = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.other.example.org}
spec: {group: other.example.org, scope: Namespaced, names: {kind: Queue, plural: queues, categories: [managed]}, versions: [{name: v1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterproviderconfigs.other.example.org}
spec: {group: other.example.org, scope: Cluster, names: {kind: ClusterProviderConfig, plural: clusterproviderconfigs}, versions: [{name: v1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: other.example.org/v1
kind: ClusterProviderConfig
metadata: {name: default}
`

// graphs is a definition in the graph dialect, two Apps, and their managed resources with their
// Bindings.
const graphs = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: apps}
spec:
  schema: {apiVersion: v1alpha1, kind: App, spec: {size: string}}
  resources:
  - id: db
    template: {apiVersion: cloud.example.org/v1, kind: Database, metadata: {name: "${schema.metadata.name}"}}
  - id: job
    template: {apiVersion: batch.example.org/v1, kind: Job, metadata: {name: "${schema.metadata.name}"}}
status: {lastIssuedRevision: 1}
---
apiVersion: internal.kro.run/v1alpha1
kind: GraphRevision
metadata: {name: apps-1}
spec: {revision: 1, snapshot: {name: apps, generation: 1}}
---
apiVersion: internal.kro.run/v1alpha1
kind: GraphRevision
metadata: {name: other-1}
spec: {revision: 1, snapshot: {name: other, generation: 1}}
---
apiVersion: kro.run/v1alpha1
kind: App
metadata: {name: web, namespace: prod, uid: app-1, finalizers: [kro.run/finalizer], ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: b}]}
spec: {size: small}
status: {state: ACTIVE}
---
apiVersion: kro.run/v1alpha1
kind: App
metadata: {name: test, namespace: dev, uid: app-2}
spec: {size: small}
---
apiVersion: cloud.example.org/v1
kind: Database
metadata: {name: web, namespace: prod, uid: db-1, finalizers: [finalizer.managedresource.crossplane.io], annotations: {crossplane.io/external-name: web-7}}
spec: {forProvider: {size: small}}
status: {atProvider: {id: web-7}}
---
apiVersion: cloud.example.org/v1
kind: Database
metadata: {name: alone, namespace: dev, uid: db-2, finalizers: [finalizer.managedresource.crossplane.io]}
spec: {forProvider: {size: small}}
---
apiVersion: espalier.dev/v1alpha1
kind: Binding
metadata: {name: u-db-1}
spec: {phase: Bound, ref: web-7, mark: m1, key: {scope: eu, type: db}, owner: {apiVersion: cloud.example.org/v1, kind: Database, namespace: prod, name: web, uid: db-1}}
---
apiVersion: espalier.dev/v1alpha1
kind: Binding
metadata: {name: u-db-2}
spec: {phase: Bound, ref: alone-1, mark: m2, key: {scope: eu, type: db}, owner: {apiVersion: cloud.example.org/v1, kind: Database, namespace: dev, name: alone, uid: db-2}}
---
apiVersion: espalier.dev/v1alpha1
kind: Binding
metadata: {name: k-tombstone}
spec: {phase: Tombstone, ref: gone-1, mark: m3, key: {scope: eu, type: db, name: gone}, owner: {apiVersion: cloud.example.org/v1, kind: Database, namespace: prod, name: gone, uid: db-3}}
---
apiVersion: espalier.dev/v1alpha1
kind: Binding
metadata: {name: u-released}
spec: {phase: Released, ref: gone-2, mark: m4, key: {scope: eu, type: db}, owner: {apiVersion: cloud.example.org/v1, kind: Database, namespace: prod, name: left, uid: db-4}}
---
apiVersion: cloud.example.org/v1
kind: ProviderConfig
metadata: {name: default, namespace: prod}
spec: {credentials: {source: Secret, secretRef: {name: creds}}}
---
apiVersion: v1
kind: Secret
metadata: {name: creds, namespace: prod}
data: {token: c2VjcmV0}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: ledger, namespace: prod}
spec: {of: {apiVersion: cloud.example.org/v1, kind: Database, resourceRef: {name: web}}, reason: the ledger}`

// compositions is a definition in the composition dialect, and a claim with its composite.
const compositions = `
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: xshops.shop.example.org}
spec:
  group: shop.example.org
  names: {kind: XShop, plural: xshops}
  claimNames: {kind: Shop, plural: shops}
  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: shop}
spec:
  compositeTypeRef: {apiVersion: shop.example.org/v1, kind: XShop}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-render}
    credentials: [{name: api, source: Secret, secretRef: {namespace: prod, name: render}}]
    input: {apiVersion: x/v1, kind: Input, name: "{metadata.uid}"}
---
apiVersion: apiextensions.crossplane.io/v1
kind: CompositionRevision
metadata: {name: shop-1, labels: {crossplane.io/composition-name: shop}}
spec:
  revision: 3
  compositeTypeRef: {apiVersion: shop.example.org/v1, kind: XShop}
  mode: Pipeline
  pipeline: [{step: render, functionRef: {name: function-render}}]
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: function-render}
spec: {package: "example.org/function-render:v1"}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: function-other}
spec: {package: "example.org/function-other:v1"}
---
apiVersion: pkg.crossplane.io/v1
kind: FunctionRevision
metadata: {name: function-render-1, labels: {pkg.crossplane.io/package: function-render}}
spec: {revision: 1}
---
apiVersion: apiextensions.crossplane.io/v1beta1
kind: EnvironmentConfig
metadata: {name: region}
data: {region: eu}
---
apiVersion: shop.example.org/v1
kind: Shop
metadata: {name: corner, namespace: prod, uid: shop-1}
spec: {size: 3}
---
apiVersion: shop.example.org/v1
kind: XShop
metadata: {name: corner-x, uid: xshop-1, labels: {crossplane.io/composite: corner-x}}
spec:
  size: 3
  claimRef: {apiVersion: shop.example.org/v1, kind: Shop, namespace: prod, name: corner}
  resourceRefs: [{apiVersion: cloud.example.org/v1, kind: Database, namespace: prod, name: web}]
status: {url: "https://corner"}
---` + compositeCRDs

// compositeCRDs are the CustomResourceDefinitions that the definition's controller publishes.
const compositeCRDs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xshops.shop.example.org, ownerReferences: [{apiVersion: apiextensions.crossplane.io/v1, kind: CompositeResourceDefinition, name: xshops.shop.example.org, uid: x, controller: true}]}
spec: {group: shop.example.org, scope: Cluster, names: {kind: XShop, plural: xshops}, versions: [{name: v1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.shop.example.org, ownerReferences: [{apiVersion: apiextensions.crossplane.io/v1, kind: CompositeResourceDefinition, name: xshops.shop.example.org, uid: x, controller: true}]}
spec: {group: shop.example.org, scope: Namespaced, names: {kind: Shop, plural: shops}, versions: [{name: v1, served: true, storage: true}]}
status: {conditions: [{type: Established, status: "True"}]}`

var (
	appKey      = object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "web"}
	databaseKey = object.Key{Group: "cloud.example.org", Kind: "Database", Namespace: "prod", Name: "web"}
	holdKey     = object.Key{Group: holdKind.Group, Kind: holdKind.Kind, Name: "import-e1"}
	jobKind     = schema.GroupKind{Group: "batch.example.org", Kind: "Job"}
)

// clusterScoped are the kinds whose objects are in no namespace.
var clusterScoped = []schema.GroupVersionKind{
	namespaceKind, crdKind, bindingKind, holdKind, compositeDefinitionKind, compositionKind, revisionKind, graphRevisionKind,
	functionKind, functionRevisionKind, environmentKind, {Group: "kro.run", Kind: "ResourceGraphDefinition"}, {Group: "shop.example.org", Kind: "XShop"},
}

// newPlane is a control plane whose Database prod/web is a child of App prod/web.
func newPlane(objects ...string) *fakekube.Cluster {
	c := fakekube.New(objects...)
	for _, gvk := range clusterScoped {
		c.Kinds[gvk.GroupKind()] = fakekube.Kind{ClusterScoped: true}
	}
	c.Kinds[jobKind] = fakekube.Kind{Unserved: true}
	if c.Object(databaseKey) != nil {
		c.Change(databaseKey, partOf(appKey, "v1alpha1"))
	}
	return c
}

func partOf(key object.Key, version string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{
			v1alpha1.ApplySetPartOfLabel: inventory.ApplySetID(key), v1alpha1.InstanceGroupLabel: key.Group, v1alpha1.InstanceKindLabel: key.Kind,
			v1alpha1.InstanceNamespaceLabel: key.Namespace, v1alpha1.InstanceNameLabel: key.Name, v1alpha1.InstanceVersionLabel: version,
		})
	}
}

// progress records messages about the progress.
type progress struct{ messages []string }

func (p *progress) record(format string, args ...any) {
	p.messages = append(p.messages, fmt.Sprintf(format, args...))
}

func newExport(c *fakekube.Cluster) *Export {
	return &Export{Cluster: &Cluster{client: c, mapper: c}, ID: "e1", Version: "v1.2.3", Now: time.Unix(1000, 0), Progress: new(progress).record}
}

// export exports a control plane, and reads the file again.
func export(t *testing.T, e *Export) archive.File {
	t.Helper()
	var out bytes.Buffer
	header, err := e.Run(context.Background(), &out)
	if err != nil {
		t.Fatal(err)
	}
	file, err := archive.Decode(&out, archive.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	if problems := file.Check(); len(problems) > 0 {
		t.Errorf("the export has the problems %q", problems)
	}
	if header.ID != file.Header.ID {
		t.Errorf("the header in the file is %+v", file.Header)
	}
	return file
}

// names lists the objects of an export by their sections.
func names(f archive.File) []string {
	var out []string
	for _, s := range archive.AllSections {
		var in []string
		for _, o := range f.Sections[s] {
			in = append(in, object.KeyOf(o).String())
		}
		if len(in) > 0 {
			out = append(out, s.String()+": "+strings.Join(in, ", "))
		}
	}
	return out
}

func find(f archive.File, key object.Key) *unstructured.Unstructured {
	for _, o := range f.Objects() {
		if object.KeyOf(o) == key {
			return o
		}
	}
	return nil
}

// failing fails each request with the prefix.
func failing(prefix string, err error) func(string) error {
	return func(request string) error {
		if strings.HasPrefix(request, prefix) {
			return err
		}
		return nil
	}
}

func without(list []string, text string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.Contains(s, text) })
}
