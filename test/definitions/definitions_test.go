package definitions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestADefinitionsProblemsAreReportedAllAtOnce(t *testing.T) {
	s := begin(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-wrong}
spec:
  schema: {apiVersion: v1alpha1, kind: Wrong, group: $GROUP, spec: {replicas: "integr | default=1", name: string}}
  resources:
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.nam}"}, data: {count: "${1 + 1}"}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {count: "${frist.data.count}"}}
`)
	s.Await(t, rgd, "", s.Name("wrong"), all(
		conditionIs("GraphAccepted", "False", "InvalidResourceGraph",
			"spec.schema.spec.replicas", `did you mean "integer"?`,
			"spec.resources[0].template.metadata.name", `did you mean "name"?`,
			"spec.resources[0].template.data.count", "string",
			"spec.resources[1].template.data.count", `did you mean "first"?`),
		conditionIs("Ready", "False", "InvalidResourceGraph"), field("Inactive", "status", "state")))
}

func TestABrokenChangeLeavesTheLastGoodGraphServing(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.Box)
	s.Put(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Put(t, strings.Replace(suite.Box, "${schema.spec.value}", "${schema.spec.valeu}", 1))
	s.Await(t, rgd, "", s.Name("box"), all(conditionIs("GraphAccepted", "False", "InvalidResourceGraph", `did you mean "value"?`), field("Inactive", "status", "state")))
	s.Put(t, suite.BoxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", all(testkit.IsReady, field("changed", "status", "value")))

	t.Log("its instances can be deleted, and it with them")
	s.Delete(t, rgd, "", s.Name("box"))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, rgd, "", s.Name("box"))
	if s.Get(t, configMap, s.NS, "x-content") != nil {
		t.Error("a child is left over")
	}
}

func TestAKindThatIsMissingHoldsBackOnlyItsOwnNodes(t *testing.T) {
	s := begin(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-mixed}
spec:
  schema: {apiVersion: v1alpha1, kind: Mixed, group: $GROUP, status: {id: "${late.status.id}"}}
  resources:
    - id: late
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cidr: 10.0.0.0/8}}
    - id: sibling
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: sibling}, data: {a: b}}
`)
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Mixed\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, configMap, s.NS, "sibling", exists)
	s.Await(t, s.Kind("Mixed"), s.NS, "x", all(conditionIs("Ready", "False", "WaitingForKind", "late: ", "Subnet"), field("IN_PROGRESS", "status", "state")))
	s.Await(t, rgd, "", s.Name("mixed"), conditionIs("GraphAccepted", "True", "Valid", "Subnet.v1alpha1."+s.Group))

	t.Log("the kind appears, and what depends on it is typed and made")
	s.Put(t, suite.SubnetKind)
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Mixed"), s.NS, "x", all(testkit.IsReady, field("subnet-1", "status", "id")))
	s.Await(t, crdKind, "", "mixeds."+s.Group, func(o *unstructured.Unstructured) error {
		raw := testkit.Show(o)
		if !strings.Contains(raw, `"id":{"type":"string"}`) {
			return errors.New("the status is not typed yet")
		}
		return nil
	})

	t.Log("its schema changes, and definitions that read it are checked anew")
	s.Put(t, strings.Replace(suite.SubnetKind, "properties: {id: {type: string}}", "properties: {id: {type: integer}}", 1))
	s.Await(t, rgd, "", s.Name("mixed"), conditionIs("KindReady", "False", "BreakingChange", "spec.schema.status.id"))
}

func TestAClashWithSomebodyElsesKindIsRefused(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.SubnetKind)
	s.Put(t, "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-clash}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Subnet, group: $GROUP}\n")
	s.Await(t, rgd, "", s.Name("clash"), all(conditionIs("KindReady", "False", "KindNotOwned", "subnets."+s.Group+" exists already"), field("Inactive", "status", "state")))

	t.Log("and so is one with another definition's")
	s.Put(t, suite.Box)
	s.Active(t, "box")
	s.Put(t, strings.Replace(suite.Box, "$ID-box", "$ID-twin", 1))
	s.Await(t, rgd, "", s.Name("twin"), conditionIs("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.Name("box")))
	s.Active(t, "box")
}

func TestABreakingChangeIsRefusedUnlessAnnotated(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.Box)
	s.Active(t, "box")
	broken := strings.Replace(suite.Box, `spec: {value: 'string | default="ours"'}`, "spec: {value: 'string | default=\"ours\"', size: integer | required=true}", 1)
	s.Put(t, broken)
	s.Await(t, rgd, "", s.Name("box"), conditionIs("KindReady", "False", "BreakingChange", "spec.schema.spec.size", "kro.run/allow-breaking-changes"))
	s.Put(t, strings.Replace(broken, "metadata: {name: $ID-box}", "metadata: {name: $ID-box, annotations: {kro.run/allow-breaking-changes: 'true'}}", 1))
	s.Active(t, "box")
}

func TestConditionsDecideWhatIsThere(t *testing.T) {
	s := begin(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-choice}
spec:
  schema: {apiVersion: v1alpha1, kind: Choice, group: $GROUP, spec: {extra: boolean | default=true}, status: {extra: "${second.data.a}"}}
  resources:
    - id: first
      includeWhen: ["${schema.spec.extra}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {a: b}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {a: "${first.data.a}"}}
    - id: third
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: third}, data: {a: b}}
`)
	instance := "\napiVersion: $GROUP/v1alpha1\nkind: Choice\nmetadata: {name: x, namespace: $NS}\nspec: {extra: %v}\n"
	s.Put(t, fmt.Sprintf(instance, true))
	s.Await(t, s.Kind("Choice"), s.NS, "x", all(testkit.IsReady, field("b", "status", "extra")))
	s.Put(t, fmt.Sprintf(instance, false))
	s.AwaitGone(t, configMap, s.NS, "second")
	s.AwaitGone(t, configMap, s.NS, "first")
	s.Await(t, s.Kind("Choice"), s.NS, "x", all(testkit.IsReady, field(nil, "status", "extra")))
	if s.Get(t, configMap, s.NS, "third") == nil {
		t.Error("what is wanted was deleted too")
	}
	s.Put(t, fmt.Sprintf(instance, true))
	s.Await(t, s.Kind("Choice"), s.NS, "x", all(testkit.IsReady, field("b", "status", "extra")))
}

func TestAReferenceToSomebodyElsesObjectIsReadAndFollowed(t *testing.T) {
	s := begin(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-reader}
spec:
  schema: {apiVersion: v1alpha1, kind: Reader, group: $GROUP, spec: {from: string}, status: {value: "${source.data.value}"}}
  resources:
    - id: source
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.from}"}}
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy}, data: {value: "${source.data.value}"}}
`)
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Reader\nmetadata: {name: x, namespace: $NS}\nspec: {from: theirs}\n")
	s.Await(t, s.Kind("Reader"), s.NS, "x", conditionIs("Ready", "False", "WaitingForExternal", "source waits for ConfigMap "+s.NS+"/theirs"))
	source := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: $NS}\ndata: {value: %s}\n"
	s.Put(t, fmt.Sprintf(source, "one"))
	s.Await(t, s.Kind("Reader"), s.NS, "x", all(testkit.IsReady, field("one", "status", "value")))
	s.Put(t, fmt.Sprintf(source, "two"))
	s.Await(t, s.Kind("Reader"), s.NS, "x", all(testkit.IsReady, field("two", "status", "value")))
	s.Await(t, configMap, s.NS, "copy", all(field("two", "data", "value")))
	s.Delete(t, s.Kind("Reader"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Reader"), s.NS, "x")
	if s.Get(t, configMap, s.NS, "theirs") == nil {
		t.Error("somebody else's object was deleted")
	}
}

func TestReadinessCanFollowHealth(t *testing.T) {
	s := begin(t)
	deployment := `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-%[1]s}
spec:
  %[2]s
  schema: {apiVersion: v1alpha1, kind: %[3]s, group: $GROUP}
  resources:
    - id: app
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: "${schema.metadata.name}"}
        spec:
          replicas: 1
          selector: {matchLabels: {app: a}}
          template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: i, ports: [{containerPort: 80}]}]}}
`
	s.Put(t, fmt.Sprintf(deployment, "there", "", "There"))
	s.Put(t, fmt.Sprintf(deployment, "healthy", "readiness: Health", "Healthy"))
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: There\nmetadata: {name: a, namespace: $NS}\n---\napiVersion: $GROUP/v1alpha1\nkind: Healthy\nmetadata: {name: b, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("There"), s.NS, "a")
	s.Await(t, s.Kind("Healthy"), s.NS, "b", conditionIs("Ready", "False", "NotReady", "app is not ready: InProgress"))
	apps := configMap
	apps.Group, apps.Version, apps.Kind = "apps", "v1", "Deployment"
	s.SetStatus(t, apps, s.NS, "b", map[string]any{"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
		"conditions": []any{map[string]any{"type": "Available", "status": "True"}, map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}}})
	s.AwaitReady(t, s.Kind("Healthy"), s.NS, "b")
}

func TestClusterScopedInstancesKeepNamespacedChildren(t *testing.T) {
	s := begin(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-wide}
spec:
  schema: {apiVersion: v1alpha1, kind: Wide, group: $GROUP, scope: Cluster, spec: {namespace: string}}
  resources:
    - id: inside
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: "${schema.spec.namespace}"}, data: {a: b}}
`)
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Wide\nmetadata: {name: x}\nspec: {namespace: $NS}\n")
	s.Await(t, s.Kind("Wide"), "", "x", all(testkit.IsReady, field(s.NS, "metadata", "annotations", "applyset.kubernetes.io/additional-namespaces")))
	s.Await(t, configMap, s.NS, "inside", exists)
	s.Delete(t, s.Kind("Wide"), "", "x")
	s.AwaitGone(t, s.Kind("Wide"), "", "x")
	if s.Get(t, configMap, s.NS, "inside") != nil {
		t.Error("the child is left over")
	}
}

func TestAKindThatAppearsAndDoesNotFitIsToldWhileTheRestGoesOn(t *testing.T) {
	s := begin(t)
	definition := `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-early}
spec:
  schema: {apiVersion: v1alpha1, kind: Early, group: $GROUP, spec: {value: string | default=one}, status: {id: "${late.status.id}", value: "${sibling.data.a}"}}
  resources:
    - id: late
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cdir: 10.0.0.0/8}}
    - id: sibling
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: sibling}, data: {a: "${schema.spec.value}"}}
    - id: reader
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: reader}, data: {a: "${late.status.id}"}}
`
	s.Put(t, definition)
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Early\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Early"), s.NS, "x", all(conditionIs("Ready", "False", "WaitingForKind"), field("one", "status", "value")))

	t.Log("the kind has another field: that is told, and the graph that served goes on")
	s.Put(t, suite.SubnetKind)
	s.Await(t, rgd, "", s.Name("early"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph", `spec.resources[0].template.spec.cdir: there is no field "cdir" here; did you mean "cidr"?`))
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Early\nmetadata: {name: x, namespace: $NS}\nspec: {value: two}\n")
	s.Await(t, s.Kind("Early"), s.NS, "x", all(field("two", "status", "value"), conditionIs("Ready", "False", "WaitingForKind", "GraphAccepted")))

	t.Log("the definition is mended, and all of it is there")
	s.Put(t, strings.Replace(definition, "cdir", "cidr", 1))
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Early"), s.NS, "x", all(testkit.IsReady, field("subnet-1", "status", "id")))
}

func TestTwoKindsWithOnePluralAreToldApart(t *testing.T) {
	s := begin(t)
	const kind = "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-first}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Vpc, group: $GROUP}\n"
	s.Put(t, kind)
	s.Active(t, "first")
	s.Put(t, strings.NewReplacer("$ID-first", "$ID-second", "kind: Vpc", "kind: VPC").Replace(kind))
	s.Await(t, rgd, "", s.Name("second"), conditionIs("KindReady", "False", "KindNotOwned", "has the plural of VPC already", "ResourceGraphDefinition "+s.Name("first")))
	s.Delete(t, rgd, "", s.Name("first"))
	s.Active(t, "second")
}

func TestADefinitionMayHaveALongName(t *testing.T) {
	s := begin(t)
	long := "box-" + strings.Repeat("long-", 20) + "x"
	s.Put(t, strings.Replace(suite.Box, "$ID-box", "$ID-"+long, 1))
	s.Put(t, suite.BoxInstance)
	s.Active(t, long)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Put(t, strings.Replace(suite.Box, "$ID-box", "$ID-twin", 1))
	s.Await(t, rgd, "", s.Name("twin"), conditionIs("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.Name(long)))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.Delete(t, rgd, "", s.Name(long))
	s.AwaitGone(t, rgd, "", s.Name(long))
	s.Active(t, "twin")
}

func TestTheLastGoodGraphFollowsTheKindsThatItUses(t *testing.T) {
	s := begin(t)
	const late = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-late}
spec:
  schema: {apiVersion: v1alpha1, kind: Late, group: $GROUP, status: {id: "${subnet.status.id}"}}
  resources:
    - id: subnet
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cidr: 10.0.0.0/8}}
`
	s.Put(t, late)
	s.Active(t, "late")
	s.Put(t, "\napiVersion: $GROUP/v1alpha1\nkind: Late\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Late"), s.NS, "x", conditionIs("Ready", "False", "WaitingForKind"))
	s.Put(t, strings.Replace(late, "${subnet.status.id}", "${sbunet.status.id}", 1))
	s.Await(t, rgd, "", s.Name("late"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph"))
	s.Put(t, suite.SubnetKind)
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Late"), s.NS, "x", field("subnet-1", "status", "id"))
}

func TestAKindThatBecomesFreeIsTaken(t *testing.T) {
	s := begin(t)
	const clash = "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-clash}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Subnet, group: $GROUP}\n"
	s.Put(t, suite.SubnetKind)
	s.Put(t, clash)
	s.Await(t, rgd, "", s.Name("clash"), conditionIs("KindReady", "False", "KindNotOwned"))
	s.Delete(t, crdKind, "", "subnets."+s.Group)
	s.Active(t, "clash")

	t.Log("another definition's too")
	s.Put(t, strings.Replace(clash, "$ID-clash", "$ID-heir", 1))
	s.Await(t, rgd, "", s.Name("heir"), conditionIs("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.Name("clash")))
	s.Delete(t, rgd, "", s.Name("clash"))
	s.AwaitGone(t, rgd, "", s.Name("clash"))
	s.Active(t, "heir")
}
