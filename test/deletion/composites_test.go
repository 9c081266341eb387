package deletion

import (
	"testing"

	"github.com/espalier-dev/espalier/test/suite"
)

// composites is a nest of the composition dialect: a claim Top of an XTop of a Mid, both
// in no namespace, of a Low in the claim's, which has two objects of a leaf kind, the
// second on top of the first.
const composites = leafKind + `
---
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: xtops.$GROUP}
spec:
  group: $GROUP
  names: {kind: XTop, plural: xtops}
  claimNames: {kind: Top, plural: tops}
  versions: [{name: v1alpha1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {}}}}]
---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: mids.$GROUP}
spec:
  scope: Cluster
  group: $GROUP
  names: {kind: Mid, plural: mids}
  versions: [{name: v1alpha1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {namespace: {type: string}}}}}}}]
---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: lows.$GROUP}
spec:
  scope: Namespaced
  group: $GROUP
  names: {kind: Low, plural: lows}
  versions: [{name: v1alpha1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {}}}}]
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-top}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: XTop}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: mid
        base: {apiVersion: $GROUP/v1alpha1, kind: Mid}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: spec.namespace}]
  - {step: ready, functionRef: {name: function-auto-ready}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-mid}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: Mid}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: low
        base: {apiVersion: $GROUP/v1alpha1, kind: Low, spec: {}}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.namespace, toFieldPath: metadata.namespace}]
  - {step: ready, functionRef: {name: function-auto-ready}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-low}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: Low}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: below
        base: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: x-below}, spec: {a: b}}
        readinessChecks: [{type: None}]
      - name: leaf
        base: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: x-leaf, annotations: {espalier.dev/depends-on: below}}, spec: {a: b}}
        readinessChecks: [{type: None}]
`

// compose makes the nest and a claim of it.
func compose(t *testing.T, s suite.Suite) {
	t.Helper()
	s.Put(t, composites)
	s.Put(t, topInstance+"spec: {}\n")
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
}
