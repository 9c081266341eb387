package suite

import (
	"strings"
	"testing"
)

// Graph is a ResourceGraphDefinition of a kind in the test's group, in version v1alpha1. Its name
// is $ID- and the kind in lower case. Fields are the schema's other fields, in one line;
// resources are a YAML list.
func Graph(kind, fields, resources string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-` + strings.ToLower(kind) + `}
spec:
  schema: {apiVersion: v1alpha1, kind: ` + kind + `, group: $GROUP` + fields + `}
  resources:` + resources
}

// Box is the smallest definition: its instances consist of one ConfigMap.
const Box = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-box}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Box
    group: $GROUP
    spec: {value: 'string | default="ours"'}
    status: {value: "${content.data.value}"}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-content"}, data: {value: "${schema.spec.value}"}}
`

// BoxInstance is an instance of Box.
const BoxInstance = "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: x, namespace: $NS}\n"

// SubnetCRD defines a kind that no controller serves; tests write its status by SetSubnet.
var SubnetCRD = CRDText("$GROUP", "v1alpha1", "Subnet",
	"{type: object, properties: {spec: {type: object, properties: {cidr: {type: string}}}, status: {type: object, properties: {id: {type: string}}}}}")

// SetSubnet waits until the Subnet x exists, and sets the ID in its status.
func (s Suite) SetSubnet(t *testing.T, id string) {
	t.Helper()
	s.Await(t, s.Kind("Subnet"), s.NS, "x", IsPresent)
	s.SetStatus(t, s.Kind("Subnet"), s.NS, "x", map[string]any{"id": id})
}

// XRD is a CompositeResourceDefinition in the test's group, in API version v1 or v2, whose
// composites have the given properties in spec and status. More are further lines of the
// definition's own spec.
func XRD(version, kind, spec, status string, more ...string) string {
	plural := strings.ToLower(kind) + "s"
	lines := ""
	for _, line := range more {
		lines += "  " + line + "\n"
	}
	return `
apiVersion: apiextensions.crossplane.io/` + version + `
kind: CompositeResourceDefinition
metadata: {name: ` + plural + `.$GROUP}
spec:
  group: $GROUP
  names: {kind: ` + kind + `, plural: ` + plural + `}
` + lines + `  versions:
  - name: v1alpha1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {` + spec + `}}
          status: {type: object, properties: {` + status + `}}
`
}

// Composition is the Composition $ID-name for composites of a kind in the test's group, with the
// given steps. More are further lines of its spec.
func Composition(name, kind, steps string, more ...string) string {
	lines := ""
	for _, line := range more {
		lines += "  " + line + "\n"
	}
	return `
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-` + name + `}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: ` + kind + `}
  mode: Pipeline
` + lines + `  pipeline:
` + steps
}

// PatchAndTransform is a step of function-patch-and-transform with the given resources, a YAML list.
func PatchAndTransform(resources string) string {
	return `  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:` + resources
}

// AutoReady is a step of function-auto-ready.
const AutoReady = "  - {step: ready, functionRef: {name: function-auto-ready}}\n"

// CRDText is a CustomResourceDefinition of a namespaced kind with a status subresource and
// the given schema.
func CRDText(group, version, kind, schema string) string {
	singular := strings.ToLower(kind)
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + singular + "s." + group + `}
spec:
  group: ` + group + `
  scope: Namespaced
  names: {kind: ` + kind + `, listKind: ` + kind + `List, plural: ` + singular + `s, singular: ` + singular + `}
  versions:
    - name: ` + version + `
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: ` + schema + `
`
}

// UsageNode is a node of a definition that is a Crossplane Usage with the given spec.
func UsageNode(id, name, spec string) string {
	return `
    - id: ` + id + `
      template:
        apiVersion: protection.crossplane.io/v1beta1
        kind: Usage
        metadata: {name: ` + name + `}
        spec: ` + spec
}

// UsageRef is a Usage's reference to the ConfigMap of a node of the same definition.
func UsageRef(node string) string {
	return `{apiVersion: v1, kind: ConfigMap, resourceRef: {name: "${` + node + `.metadata.name}"}}`
}
