package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/test/suite"
)

// letGo deletes a definition that may leave orphans.
func letGo(t *testing.T, s suite.Suite, name string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
	if _, err := s.Of(t, rgd, "").Patch(t.Context(), s.Name(name), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Delete(t, rgd, "", s.Name(name))
	s.AwaitGone(t, rgd, "", s.Name(name))
}

// unreadable turns the box into a definition whose spec can't be decoded.
func unreadable(definition string) string {
	return strings.Replace(definition, "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n", 1)
}

func TestADefinitionThatCantBeReadStillWaitsForItsInstances(t *testing.T) {
	s := begin(t)
	s.Put(t, box)
	s.Put(t, boxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")

	t.Log("nothing is remembered of the former incarnation, as after a restart")
	letGo(t, s, "box")
	s.Put(t, unreadable(box))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph", "can't be read"))
	s.Put(t, boxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", field("changed", "status", "value"))

	s.Delete(t, rgd, "", s.Name("box"))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, rgd, "", s.Name("box"))
}

func TestADefinitionThatComesBackInAnotherVersionServesWhatThereIs(t *testing.T) {
	s := begin(t)
	s.Put(t, box)
	s.Put(t, boxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	letGo(t, s, "box")
	s.Put(t, strings.Replace(box, "apiVersion: v1alpha1\n", "apiVersion: v1beta1\n", 1))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("KindReady", "False", "BreakingChange", "version v1alpha1 is no longer served"))
	s.Put(t, boxInstance+"spec: {value: changed}\n")
	s.Await(t, s.Kind("Box"), s.NS, "x", field("changed", "status", "value"))

	s.Delete(t, rgd, "", s.Name("box"))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("Ready", "False", "InstancesRemain", "1 instance of Box remains"))
	s.Delete(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Box"), s.NS, "x")
	s.AwaitGone(t, rgd, "", s.Name("box"))
}

func TestAKindThatBecomesFreeIsTaken(t *testing.T) {
	s := begin(t)
	const clash = "\napiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: $ID-clash}\nspec:\n  schema: {apiVersion: v1alpha1, kind: Subnet, group: $GROUP}\n"
	s.Put(t, leaf)
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
	s.Put(t, strings.Replace(box, "$ID-box", "$ID-"+long, 1))
	s.Put(t, boxInstance)
	s.Active(t, long)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Put(t, strings.Replace(box, "$ID-box", "$ID-twin", 1))
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
	s.Put(t, leaf)
	subnet(t, s, "subnet-1")
	s.Await(t, s.Kind("Late"), s.NS, "x", field("subnet-1", "status", "id"))
}
