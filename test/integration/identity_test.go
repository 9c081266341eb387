package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// letGo deletes a definition that may leave orphans.
func (s suite) letGo(t *testing.T, name string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
	if _, err := s.Of(t, rgd, "").Patch(t.Context(), s.name(name), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Delete(t, rgd, "", s.name(name))
	s.AwaitGone(t, rgd, "", s.name(name))
}

// unreadable turns the box into a definition whose spec can't be decoded.
func unreadable(definition string) string {
	return strings.Replace(definition, "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n", 1)
}

func TestADefinitionThatCantBeReadStillWaitsForItsInstances(t *testing.T) {
	s := begin(t)
	s.apply(t, box)
	s.apply(t, boxInstance)
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")

	t.Log("nothing is remembered of the former incarnation, as after a restart")
	s.letGo(t, "box")
	s.apply(t, unreadable(box))
	s.Await(t, rgd, "", s.name("box"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph", "can't be read"))
	s.apply(t, boxInstance+"spec: {value: changed}\n")
	s.Await(t, s.kind("Box"), s.ns, "x", field("changed", "status", "value"))

	s.Delete(t, rgd, "", s.name("box"))
	s.Await(t, rgd, "", s.name("box"), conditionIs("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.kind("Box"), s.ns, "x")
	s.AwaitGone(t, s.kind("Box"), s.ns, "x")
	s.AwaitGone(t, rgd, "", s.name("box"))
}

func TestADefinitionThatComesBackInAnotherVersionServesWhatThereIs(t *testing.T) {
	s := begin(t)
	s.apply(t, box)
	s.apply(t, boxInstance)
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	s.letGo(t, "box")
	s.apply(t, strings.Replace(box, "apiVersion: v1alpha1\n", "apiVersion: v1beta1\n", 1))
	s.Await(t, rgd, "", s.name("box"), conditionIs("KindReady", "False", "BreakingChange", "version v1alpha1 is no longer served"))
	s.apply(t, boxInstance+"spec: {value: changed}\n")
	s.Await(t, s.kind("Box"), s.ns, "x", field("changed", "status", "value"))

	s.Delete(t, rgd, "", s.name("box"))
	s.Await(t, rgd, "", s.name("box"), conditionIs("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.kind("Box"), s.ns, "x")
	s.AwaitGone(t, s.kind("Box"), s.ns, "x")
	s.AwaitGone(t, rgd, "", s.name("box"))
}

func TestAKindThatBecomesFreeIsTaken(t *testing.T) {
	s := begin(t)
	const clash = "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-clash}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Subnet, group: $GROUP}\n"
	s.apply(t, leaf)
	s.apply(t, clash)
	s.Await(t, rgd, "", s.name("clash"), conditionIs("KindReady", "False", "KindNotOwned"))
	s.Delete(t, crdKind, "", "subnets."+s.group)
	s.active(t, "clash")

	t.Log("another definition's too")
	s.apply(t, strings.Replace(clash, "$ID-clash", "$ID-heir", 1))
	s.Await(t, rgd, "", s.name("heir"), conditionIs("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.name("clash")))
	s.Delete(t, rgd, "", s.name("clash"))
	s.AwaitGone(t, rgd, "", s.name("clash"))
	s.active(t, "heir")
}

func TestTwoKindsWithOnePluralAreToldApart(t *testing.T) {
	s := begin(t)
	const kind = "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-first}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Vpc, group: $GROUP}\n"
	s.apply(t, kind)
	s.active(t, "first")
	s.apply(t, strings.NewReplacer("$ID-first", "$ID-second", "kind: Vpc", "kind: VPC").Replace(kind))
	s.Await(t, rgd, "", s.name("second"), conditionIs("KindReady", "False", "KindNotOwned", "has the plural of VPC already", "ResourceGraphDefinition "+s.name("first")))
	s.Delete(t, rgd, "", s.name("first"))
	s.active(t, "second")
}

func TestADefinitionMayHaveALongName(t *testing.T) {
	s := begin(t)
	long := "box-" + strings.Repeat("long-", 20) + "x"
	s.apply(t, strings.Replace(box, "$ID-box", "$ID-"+long, 1))
	s.apply(t, boxInstance)
	s.active(t, long)
	s.AwaitReady(t, s.kind("Box"), s.ns, "x")
	s.apply(t, strings.Replace(box, "$ID-box", "$ID-twin", 1))
	s.Await(t, rgd, "", s.name("twin"), conditionIs("KindReady", "False", "KindNotOwned", "is defined by ResourceGraphDefinition "+s.name(long)))
	s.Delete(t, s.kind("Box"), s.ns, "x")
	s.Delete(t, rgd, "", s.name(long))
	s.AwaitGone(t, rgd, "", s.name(long))
	s.active(t, "twin")
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
	s.apply(t, late)
	s.active(t, "late")
	s.apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Late\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.kind("Late"), s.ns, "x", conditionIs("Ready", "False", "WaitingForKind"))
	s.apply(t, strings.Replace(late, "${subnet.status.id}", "${sbunet.status.id}", 1))
	s.Await(t, rgd, "", s.name("late"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph"))
	s.apply(t, leaf)
	s.subnet(t, "subnet-1")
	s.Await(t, s.kind("Late"), s.ns, "x", field("subnet-1", "status", "id"))
}
