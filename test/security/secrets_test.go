package security

import (
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/canary"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// logged has the lines of the controllers' log that contain the value of a Secret.
var logged leaks

type leaks struct {
	mu    sync.Mutex
	lines []string
}

func (l *leaks) note(_, line string) {
	if found := canary.Find(line); found != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, found)
	}
}

// secretRules let a service account read Secrets and write them and ConfigMaps.
const secretRules = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-reader}
rules:
- {apiGroups: [$GROUP], resources: ["*"], verbs: [get, list, patch, update]}
- {apiGroups: [""], resources: [configmaps, secrets], verbs: [create, delete, get, list, patch, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-reader}
subjects: [{kind: ServiceAccount, namespace: $NS, name: espalier}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: espalier, namespace: $NS}
`

const leakyGroup = `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: leaky, namespace: $NS}
spec:
  ALLOW
  schema:
    apiVersion: v1alpha1
    kind: Leaky
    group: $GROUP
    status: {STATUS}
  resources:
    - id: db
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: db}}
    - id: config
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {url: "https://${string(db.data.password)}"}}
RESOURCES`

func leakyDefinition(allow, status, resources string) string {
	return strings.NewReplacer("ALLOW", allow, "STATUS", status, "RESOURCES", resources).Replace(leakyGroup)
}

// TestSecretsAreNotPublished puts the data of a Secret into outputs, where tenants without access to
// the Secret read it, and makes the API server and expressions fail with messages that quote it.
func TestSecretsAreNotPublished(t *testing.T) {
	s := suite.New(t)
	author := user(t, s, "author", s.NS, `[{apiGroups: [kro.run], resources: [resourcegroups], verbs: [create, get, patch]}]`)
	s.Apply(t, secretRules)
	s.Apply(t, canary.Secrets(s.NS)[0])
	// Each output is refused, with its path.
	if err := apply(t, s, author, leakyDefinition("", `direct: "${string(db.data.password)}", through: "${config.data.url}", conditions: ["${runtime.newCondition({type: 'Mine', status: 'True', message: config.data.url})}"]`, `
    - id: labelled
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${string(db.data.user)}", labels: {a: "${string(db.data.user)}"}}}
`)); err != nil {
		t.Fatal(err)
	}
	s.Await(t, suite.RG, s.NS, "leaky", suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph",
		"spec.schema.status.direct: ", "spec.schema.status.through: ", "spec.schema.status.conditions[0]: ",
		"spec.resources[2].template.metadata.name: ", "spec.resources[2].template.metadata.labels.a: ", `add "status.direct" to spec.allowSecretOutputs`))

	// What is not an output may have it, and no message repeats it.
	if err := apply(t, s, author, leakyDefinition("allowSecretOutputs: [resources.refused.metadata.labels]", `host: "${has(db.data.password) ? db.metadata.name : 'none'}"`, `
    - id: refused
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: refused, labels: {a: "${'/' + string(db.data.password)}"}}}
    - id: keyed
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: keyed}, data: "${{string(db.data.password) + '/invalid': 'a'}}"}
    - id: plain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: plain}, data: {a: b}}
    - id: looked
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: looked}, data: {a: "${plain.data[string(db.data.password)]}"}}
    - id: failing
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: failing}, data: {a: "${string(int(config.data.url))}"}}
    - id: waiting
      waitFor: {config: {fields: [{path: data.url, pattern: "^never"}]}}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: waiting}}
    - id: skipped
      includeWhen: ["${config.data.url == 'other'}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: skipped}}
`)); err != nil {
		t.Fatal(err)
	}
	s.Await(t, suite.RG, s.NS, "leaky", testkit.IsReady)
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Leaky\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Leaky"), s.NS, "x", suite.All(suite.HasField("db", "status", "host"), suite.HasCondition("ResourcesReady", "False", "",
		"refused: the API server answers Invalid", "keyed: the API server answers Invalid", "looked waits for unresolved plain.data[*]", "failing waits for a value", "waiting waits for")))
	searchForCanary(t, s)
}

// searchForCanary searches what the controllers have written, and their log.
func searchForCanary(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, gvk := range []schema.GroupVersionKind{
		suite.RG, s.Kind("Leaky"), {Version: "v1", Kind: "Event"}, {Group: "internal.kro.run", Version: "v1alpha1", Kind: "GraphRevision"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		for _, o := range s.List(t, gvk, "", "") {
			if found := canary.Find(testkit.JSON(&o)); found != "" {
				t.Errorf("%s %s: …%s…", o.GetKind(), o.GetName(), found)
			}
		}
	}
	logged.mu.Lock()
	defer logged.mu.Unlock()
	for _, line := range logged.lines {
		t.Errorf("the log: …%s…", line)
	}
}
