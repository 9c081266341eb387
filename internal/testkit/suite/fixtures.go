package suite

import (
	"strings"
	"testing"
)

// Box is a definition of one ConfigMap, the smallest thing that can be owned.
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

// SubnetKind is a kind of somebody else's, the status of which a test fills in by SetSubnet.
var SubnetKind = CRDText("$GROUP", "v1alpha1", "Subnet",
	"{type: object, properties: {spec: {type: object, properties: {cidr: {type: string}}}, status: {type: object, properties: {id: {type: string}}}}}")

// SetSubnet waits until the Subnet x is there, and sets the ID in its status.
func (s Suite) SetSubnet(t *testing.T, id string) {
	t.Helper()
	s.Await(t, s.Kind("Subnet"), s.NS, "x", Exists)
	s.SetStatus(t, s.Kind("Subnet"), s.NS, "x", map[string]any{"id": id})
}

// XRD is a CompositeResourceDefinition in the test's group, written in version v1 or v2,
// whose composites have the given properties of spec and status. More are further lines
// of its own spec.
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

// CRDText is a CustomResourceDefinition of a namespaced kind that has a status, with the
// schema of its objects.
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

// UsageNode is a node of a definition that is a Usage of the dialect's, with its spec.
func UsageNode(id, name, spec string) string {
	return `
    - id: ` + id + `
      template:
        apiVersion: protection.crossplane.io/v1beta1
        kind: Usage
        metadata: {name: ` + name + `}
        spec: ` + spec
}

// RefTo refers to the ConfigMap of a node of the same definition, as a Usage does.
func RefTo(node string) string {
	return `{apiVersion: v1, kind: ConfigMap, resourceRef: {name: "${` + node + `.metadata.name}"}}`
}
