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

func TestAllProblemsOfADefinitionAreReportedAtOnce(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Wrong", `spec: {replicas: "integr | default=1", name: string}`, `
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.nam}"}, data: {count: "${1 + 1}"}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {count: "${frist.data.count}"}}
`))
	s.Await(t, suite.RGD, "", s.Name("wrong"), suite.All(
		suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph",
			"spec.schema.spec.replicas", `did you mean "integer"?`,
			"spec.resources[0].template.metadata.name", `did you mean "name"?`,
			"spec.resources[0].template.data.count", "string",
			"spec.resources[1].template.data.count", `did you mean "first"?`),
		suite.HasCondition("Ready", "False", "InvalidResourceGraph"), suite.HasField("Inactive", "status", "state")))
}

func TestAnInvalidChangeLeavesTheLastValidGraphServing(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Apply(t, strings.Replace(suite.Box, "${schema.spec.value}", "${schema.spec.valeu}", 1))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph", `did you mean "value"?`), suite.HasField("Inactive", "status", "state")))
	s.Apply(t, suite.BoxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("changed", "status", "value")))

	t.Log("its instances can be deleted, and it with them")
	s.Delete(t, suite.RGD, "", s.Name("box"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, suite.RGD, "", s.Name("box"))
	if s.Get(t, suite.ConfigMap, s.NS, "x-content") != nil {
		t.Error("a child is left over")
	}
}

func TestAMissingKindDelaysOnlyItsOwnNodes(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Mixed", `status: {id: "${late.status.id}"}`, `
    - id: late
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cidr: 10.0.0.0/8}}
    - id: sibling
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: sibling}, data: {a: b}}
`))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Mixed\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, suite.ConfigMap, s.NS, "sibling", suite.IsPresent)
	s.Await(t, s.Kind("Mixed"), s.NS, "x", suite.All(suite.HasCondition("Ready", "False", "WaitingForKind", "late: ", "Subnet"), suite.HasField("IN_PROGRESS", "status", "state")))
	s.Await(t, suite.RGD, "", s.Name("mixed"), suite.HasCondition("GraphAccepted", "True", "Valid", "Subnet.v1alpha1."+s.Group))

	t.Log("the kind appears, and what depends on it is typed and made")
	s.Apply(t, suite.SubnetCRD)
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Mixed"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("subnet-1", "status", "id")))
	s.Await(t, suite.CRD, "", "mixeds."+s.Group, func(o *unstructured.Unstructured) error {
		raw := testkit.JSON(o)
		if !strings.Contains(raw, `"id":{"type":"string"}`) {
			return errors.New("the status is not typed yet")
		}
		return nil
	})

	t.Log("its schema changes, and definitions that read it are checked anew")
	s.Apply(t, strings.Replace(suite.SubnetCRD, "properties: {id: {type: string}}", "properties: {id: {type: integer}}", 1))
	s.Await(t, suite.RGD, "", s.Name("mixed"), suite.HasCondition("KindReady", "False", "BreakingChange", "spec.schema.status.id"))
}

func TestAConflictWithAForeignKindIsRefused(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.SubnetCRD)
	s.Apply(t, "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-clash}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Subnet, group: $GROUP}\n")
	s.Await(t, suite.RGD, "", s.Name("clash"), suite.All(suite.HasCondition("KindReady", "False", "KindNotOwned", "subnets."+s.Group+" exists already"), suite.HasField("Inactive", "status", "state")))

	t.Log("and so is one with another definition's")
	s.Apply(t, suite.Box)
	s.AwaitDefinitions(t, "box")
	s.Apply(t, strings.Replace(suite.Box, "$ID-box", "$ID-twin", 1))
	s.Await(t, suite.RGD, "", s.Name("twin"), suite.HasCondition("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.Name("box")))
	s.AwaitDefinitions(t, "box")
}

func TestABreakingChangeIsRefusedUnlessAnnotated(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.AwaitDefinitions(t, "box")
	broken := strings.Replace(suite.Box, `spec: {value: 'string | default="ours"'}`, "spec: {value: 'string | default=\"ours\"', size: integer | required=true}", 1)
	s.Apply(t, broken)
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("KindReady", "False", "BreakingChange", "spec.schema.spec.size", "kro.run/allow-breaking-changes"))
	s.Apply(t, strings.Replace(broken, "metadata: {name: $ID-box}", "metadata: {name: $ID-box, annotations: {kro.run/allow-breaking-changes: 'true'}}", 1))
	s.AwaitDefinitions(t, "box")
}

func TestConditionsDecideWhichResourcesExist(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Choice", `spec: {extra: boolean | default=true}, status: {extra: "${second.data.a}"}`, `
    - id: first
      includeWhen: ["${schema.spec.extra}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {a: b}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {a: "${first.data.a}"}}
    - id: third
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: third}, data: {a: b}}
`))
	instance := "\napiVersion: $GROUP/v1alpha1\nkind: Choice\nmetadata: {name: x, namespace: $NS}\nspec: {extra: %v}\n"
	s.Apply(t, fmt.Sprintf(instance, true))
	s.Await(t, s.Kind("Choice"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("b", "status", "extra")))
	s.Apply(t, fmt.Sprintf(instance, false))
	s.AwaitGone(t, suite.ConfigMap, s.NS, "second")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "first")
	s.Await(t, s.Kind("Choice"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField(nil, "status", "extra")))
	if s.Get(t, suite.ConfigMap, s.NS, "third") == nil {
		t.Error("what is wanted was deleted too")
	}
	s.Apply(t, fmt.Sprintf(instance, true))
	s.Await(t, s.Kind("Choice"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("b", "status", "extra")))
}

func TestAnExternalReferenceIsWatched(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Reader", `spec: {from: string}, status: {value: "${source.data.value}"}`, `
    - id: source
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.from}"}}
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy}, data: {value: "${source.data.value}"}}
`))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Reader\nmetadata: {name: x, namespace: $NS}\nspec: {from: theirs}\n")
	s.Await(t, s.Kind("Reader"), s.NS, "x", suite.HasCondition("Ready", "False", "WaitingForExternal", "source waits for ConfigMap "+s.NS+"/theirs"))
	source := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: $NS}\ndata: {value: %s}\n"
	s.Apply(t, fmt.Sprintf(source, "one"))
	s.Await(t, s.Kind("Reader"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("one", "status", "value")))
	s.Apply(t, fmt.Sprintf(source, "two"))
	s.Await(t, s.Kind("Reader"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("two", "status", "value")))
	s.Await(t, suite.ConfigMap, s.NS, "copy", suite.All(suite.HasField("two", "data", "value")))
	s.Delete(t, s.Kind("Reader"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Reader"), s.NS, "x")
	if s.Get(t, suite.ConfigMap, s.NS, "theirs") == nil {
		t.Error("another owner's object was deleted")
	}
}

func TestReadinessCanFollowHealth(t *testing.T) {
	s := suite.New(t)
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
	s.Apply(t, fmt.Sprintf(deployment, "there", "", "There"))
	s.Apply(t, fmt.Sprintf(deployment, "healthy", "readiness: Health", "Healthy"))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: There\nmetadata: {name: a, namespace: $NS}\n---\napiVersion: $GROUP/v1alpha1\nkind: Healthy\nmetadata: {name: b, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("There"), s.NS, "a")
	s.Await(t, s.Kind("Healthy"), s.NS, "b", suite.HasCondition("Ready", "False", "NotReady", "app is not ready: InProgress"))
	apps := suite.ConfigMap
	apps.Group, apps.Version, apps.Kind = "apps", "v1", "Deployment"
	s.SetStatus(t, apps, s.NS, "b", map[string]any{"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
		"conditions": []any{map[string]any{"type": "Available", "status": "True"}, map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}}})
	s.AwaitReady(t, s.Kind("Healthy"), s.NS, "b")
}

func TestClusterScopedInstancesKeepNamespacedChildren(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Wide", "scope: Cluster, spec: {namespace: string}", `
    - id: inside
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: "${schema.spec.namespace}"}, data: {a: b}}
`))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Wide\nmetadata: {name: x}\nspec: {namespace: $NS}\n")
	s.Await(t, s.Kind("Wide"), "", "x", suite.All(testkit.IsReady, suite.HasField(s.NS, "metadata", "annotations", "applyset.kubernetes.io/additional-namespaces")))
	s.Await(t, suite.ConfigMap, s.NS, "inside", suite.IsPresent)
	s.Delete(t, s.Kind("Wide"), "", "x")
	s.AwaitGone(t, s.Kind("Wide"), "", "x")
	if s.Get(t, suite.ConfigMap, s.NS, "inside") != nil {
		t.Error("the child is left over")
	}
}

func TestAnIncompatibleNewKindIsReported(t *testing.T) {
	s := suite.New(t)
	definition := suite.Graph("Early", `spec: {value: string | default=one}, status: {id: "${late.status.id}", value: "${sibling.data.a}"}`, `
    - id: late
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cdir: 10.0.0.0/8}}
    - id: sibling
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: sibling}, data: {a: "${schema.spec.value}"}}
    - id: reader
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: reader}, data: {a: "${late.status.id}"}}
`)
	s.Apply(t, definition)
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Early\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Early"), s.NS, "x", suite.All(suite.HasCondition("Ready", "False", "WaitingForKind"), suite.HasField("one", "status", "value")))

	t.Log("the kind has another field: that is reported, and the graph that served continues")
	s.Apply(t, suite.SubnetCRD)
	s.Await(t, suite.RGD, "", s.Name("early"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph", `spec.resources[0].template.spec.cdir: there is no field "cdir" here; did you mean "cidr"?`))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Early\nmetadata: {name: x, namespace: $NS}\nspec: {value: two}\n")
	s.Await(t, s.Kind("Early"), s.NS, "x", suite.All(suite.HasField("two", "status", "value"), suite.HasCondition("Ready", "False", "WaitingForKind", "GraphAccepted")))

	t.Log("the definition is mended, and all of it is there")
	s.Apply(t, strings.Replace(definition, "cdir", "cidr", 1))
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Early"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("subnet-1", "status", "id")))
}

func TestTwoKindsWithOnePluralAreDistinguished(t *testing.T) {
	s := suite.New(t)
	const kind = "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-first}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Vpc, group: $GROUP}\n"
	s.Apply(t, kind)
	s.AwaitDefinitions(t, "first")
	s.Apply(t, strings.NewReplacer("$ID-first", "$ID-second", "kind: Vpc", "kind: VPC").Replace(kind))
	s.Await(t, suite.RGD, "", s.Name("second"), suite.HasCondition("KindReady", "False", "KindNotOwned", "exists with kind Vpc, not VPC", "ResourceGraphDefinition "+s.Name("first")))
	s.Delete(t, suite.RGD, "", s.Name("first"))
	s.AwaitDefinitions(t, "second")
}

func TestADefinitionMayHaveALongName(t *testing.T) {
	s := suite.New(t)
	long := "box-" + strings.Repeat("long-", 20) + "x"
	s.Apply(t, strings.Replace(suite.Box, "$ID-box", "$ID-"+long, 1))
	s.Apply(t, suite.BoxInstance)
	s.AwaitDefinitions(t, long)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Apply(t, strings.Replace(suite.Box, "$ID-box", "$ID-twin", 1))
	s.Await(t, suite.RGD, "", s.Name("twin"), suite.HasCondition("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.Name(long)))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.Delete(t, suite.RGD, "", s.Name(long))
	s.AwaitGone(t, suite.RGD, "", s.Name(long))
	s.AwaitDefinitions(t, "twin")
}

func TestTheLastGoodGraphFollowsTheKindsThatItUses(t *testing.T) {
	s := suite.New(t)
	late := suite.Graph("Late", `status: {id: "${subnet.status.id}"}`, `
    - id: subnet
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cidr: 10.0.0.0/8}}
`)
	s.Apply(t, late)
	s.AwaitDefinitions(t, "late")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Late\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Late"), s.NS, "x", suite.HasCondition("Ready", "False", "WaitingForKind"))
	s.Apply(t, strings.Replace(late, "${subnet.status.id}", "${sbunet.status.id}", 1))
	s.Await(t, suite.RGD, "", s.Name("late"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph"))
	s.Apply(t, suite.SubnetCRD)
	s.SetSubnet(t, "subnet-1")
	s.Await(t, s.Kind("Late"), s.NS, "x", suite.HasField("subnet-1", "status", "id"))
}

func TestADefinitionServesAKindOnceItsNameIsFree(t *testing.T) {
	s := suite.New(t)
	const clash = "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-clash}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Subnet, group: $GROUP}\n"
	s.Apply(t, suite.SubnetCRD)
	s.Apply(t, clash)
	s.Await(t, suite.RGD, "", s.Name("clash"), suite.HasCondition("KindReady", "False", "KindNotOwned"))
	s.DeleteCRD(t, "subnets."+s.Group)
	s.AwaitDefinitions(t, "clash")

	t.Log("another definition's too")
	s.Apply(t, strings.Replace(clash, "$ID-clash", "$ID-heir", 1))
	s.Await(t, suite.RGD, "", s.Name("heir"), suite.HasCondition("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.Name("clash")))
	s.Delete(t, suite.RGD, "", s.Name("clash"))
	s.AwaitGone(t, suite.RGD, "", s.Name("clash"))
	s.AwaitDefinitions(t, "heir")

	t.Log("what a definition leaves behind stays as it is, and the next one says so")
	s.Apply(t, strings.Replace(clash, "$ID-clash", "$ID-third", 1))
	s.Await(t, suite.RGD, "", s.Name("third"), suite.HasCondition("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.Name("heir")))
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Subnet\nmetadata: {name: a, namespace: $NS}\n")
	annotate(s, t, s.Get(t, suite.RGD, "", s.Name("heir")), `"kro.run/allow-orphans":"true"`)
	s.Delete(t, suite.RGD, "", s.Name("heir"))
	s.Await(t, suite.RGD, "", s.Name("third"), suite.HasCondition("KindReady", "False", "KindNotOwned", "remains from ResourceGraphDefinition "+s.Name("heir")+", which no longer exists"))
}
